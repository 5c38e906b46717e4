//! Prints the text extracted from a file: `read_page FILE [BASE_URL] [CONTENT_TYPE]`.

#![allow(clippy::print_stdout, reason = "printing is what it is for")]

use url::Url;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let file = arguments.next().ok_or("name a file")?;
    let base_url = Url::parse(arguments.next().as_deref().unwrap_or("http://localhost/"))?;
    let content_type = arguments.next();
    let page = agentd_page_text::read_body(&std::fs::read(file)?, content_type.as_deref(), &base_url)?;
    println!("{}\n\n{}\n", page.title, page.text);
    for link in &page.links {
        println!("{}  {}", link.text, link.url);
    }
    if page.is_truncated {
        println!("(cut)");
    }
    Ok(())
}
