//! Backup and restore of unusual files in a workspace.

use std::os::unix::fs::MetadataExt;
use std::path::Path;

use serde_json::json;

use super::Bench;
use crate::cli::{agentd, path};

/// Creates files of every kind, and then files until the code is ended.
const FILL: &str = r#"
import os
for n in range(10):
    with open(f'hole{n}', 'wb') as f:
        f.truncate(1 << 20)
        f.seek(n << 16)
        f.write(bytes([n + 1]))
for n in range(50):
    os.link('hole1', f'name{n}')
os.makedirs('deep/' + '/'.join(['d'] * 90))
open('deep/' + '/'.join(['d'] * 90) + '/file', 'w').write('deep')
os.makedirs('/'.join(['n' * 40] * 60))
os.symlink('deep//d', 'link')
open('mode', 'w').write('x'); os.chmod('mode', 0)
os.mkdir('closed'); open('closed/file', 'w').write('hidden'); os.chmod('closed', 0)
open(b'odd\xff\n', 'w').write('odd')
for n in range(1_000_000):
    open(f'f{n}', 'w').write(str(n))
"#;

#[tokio::test]
async fn full_workspace_is_restored_unchanged() {
    let bench = Bench::new().await;
    let bounds = json!({"workspace_limit_mb": 1_000, "workspace_max_files": 3_000});
    bench.process.put("/api/sandbox/config").json(&bounds).send().await.expect_status(200);
    let done = bench.call("python", json!({"code": FILL})).await;
    assert!(done["ended"].as_str().unwrap().contains("workspace_max_files"), "{done}");
    let archive = bench.process.folder().join("backup.tar.gz");
    agentd(&bench.process, &["backup", path(&archive)]).await.success();
    let before = state(&bench.workspace());
    assert!(before.len() > 3_000, "{}", before.len());
    assert!(archive.metadata().unwrap().len() < 4 << 20);
    bench.shell("rm -rf ./*").await;
    agentd(&bench.process, &["restore", "--yes", path(&archive)]).await.success();
    assert!(state(&bench.workspace()) == before, "the workspace has changed");
    assert_eq!(bench.workspace().join("name7").metadata().unwrap().nlink(), 51);
    // The limit still applies, and files can be deleted.
    let refused = bench.call("write_file", json!({"path": "new", "content": "x"})).await;
    assert!(refused["error"].as_str().unwrap().contains("workspace_max_files"), "{refused}");
    bench.shell("rm -rf ./*").await;
    bench.call("write_file", json!({"path": "new", "content": "x"})).await;
    assert!(bench.workspace().join("new").exists());
}

/// Returns the path and content of every entry.
fn state(folder: &Path) -> Vec<String> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_path_buf()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).unwrap() {
            let (path, kind) = entry.map(|entry| (entry.path(), entry.file_type().unwrap())).unwrap();
            let content = if kind.is_dir() {
                folders.push(path.clone());
                "folder".to_owned()
            } else if kind.is_symlink() {
                format!("{:?}", std::fs::read_link(&path).unwrap())
            } else {
                hex::encode(agentd_base::sha256(&std::fs::read(&path).unwrap()))
            };
            found.push(format!("{path:?} {content}"));
        }
    }
    found.sort();
    found
}
