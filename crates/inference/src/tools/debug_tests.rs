use super::fill::Background;
use super::form::parameters;
use super::literals::Message;
use super::rank::{Profile, Rarity, fit};
#[test]
fn explain() {
    let Ok(text) = std::env::var("SAY") else { return };
    let suite: serde_json::Value = serde_json::from_str(&std::fs::read_to_string("../../bench/data/local_tools.json").unwrap()).unwrap();
    let tools: Vec<_> = suite["tools"].as_array().unwrap().iter().map(|t| { let p = parameters(&t["input_schema"]).unwrap(); let n=t["name"].as_str().unwrap().to_owned(); let pr = Profile::new(&n, t["description"].as_str().unwrap(), &p); (n, p, pr)}).collect();
    let rarity = Rarity::of(tools.iter().map(|t| &t.2));
    for text in text.split('|') {
    let m = Message::new(text);
    let mood = super::request_kind::mood(&m);
    println!("{text}\n  {:?} literals {:?}", mood, m.literals.iter().map(|l| (l.kind, &l.value)).collect::<Vec<_>>());
    for (n, p, pr) in &tools {
        match fit(pr, p, &rarity, &m, mood, Background::default()) {
            Some(f) => println!("  {n} {:.2} ev {:.2} {:?} open {}", f.score, f.filled.evidence, f.filled.values, f.filled.open.len()),
            None => println!("  {n} -"),
        }
    }}
}
