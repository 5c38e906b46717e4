//! The index is derived: it comes back from whatever happens to it.

use std::path::PathBuf;

use super::{app, contents, say, search};
use crate::support::TestApp;

fn files(app: &TestApp) -> Vec<PathBuf> {
    let folder = app.data_dir().join("index/0");
    let mut files: Vec<_> =
        std::fs::read_dir(folder).expect("the index").map(|entry| entry.expect("a file").path()).collect();
    files.retain(|path| path.file_name().is_some_and(|name| name != "lock"));
    files.sort();
    files
}

async fn filled() -> TestApp {
    let app = app().await;
    for number in 0..50 {
        say(&app, &format!("Whale number {number} of the northern sea")).await;
    }
    app
}

async fn assert_whole(app: &TestApp) {
    for mode in ["keyword", "semantic"] {
        assert_eq!(search(app, &format!("northern+whale&mode={mode}")).await["total"], 50, "{mode}");
    }
    assert_eq!(contents(&search(app, "17&mode=keyword").await), ["Whale number 17 of the northern sea"]);
}

#[tokio::test]
async fn a_restart_finds_everything() {
    let mut app = filled().await;
    app.restart().await;
    assert_whole(&app).await;
    let id = say(&app, "One more").await;
    app.delete(&format!("/api/memory/episodes/{id}")).send().await.expect_status(200);
    app.restart().await;
    assert_whole(&app).await;
}

#[tokio::test]
async fn files_that_were_lost_cut_or_changed_are_made_anew() {
    let mut app = filled().await;
    app.run_workers().await;
    let count = files(&app).len();
    assert!(count > 1, "the index is on the disk");
    for place in 0..count {
        for damage in ["remove", "cut", "flip"] {
            app.stop().await;
            let path = files(&app)[place.min(files(&app).len() - 1)].clone();
            let mut bytes = std::fs::read(&path).expect("readable");
            match damage {
                "remove" => std::fs::remove_file(&path).expect("removed"),
                "cut" => {
                    bytes.truncate(bytes.len() / 2);
                    std::fs::write(&path, bytes).expect("written");
                }
                _ => {
                    let middle = bytes.len() / 2;
                    bytes[middle] ^= 0x55;
                    std::fs::write(&path, bytes).expect("written");
                }
            }
            app.try_start().await.expect("it starts");
            assert_whole(&app).await;
        }
    }
}
