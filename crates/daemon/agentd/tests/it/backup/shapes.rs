//! Unusual files: sparse files, hard links, and paths longer than the path limit.

use std::os::unix::fs::{FileExt, MetadataExt};

use super::*;

const GIB: u64 = 1 << 30;

/// Creates 60 GiB of empty sparse files and one sparse file with scattered data; returns the data's positions.
fn write_sparse_files(fixture: &Fixture) -> Vec<(u64, u64)> {
    for number in 0..60 {
        fixture.write(&format!("agents/ada/hole-{number}"), b"");
        let file =
            std::fs::OpenOptions::new().write(true).open(fixture.root().join(format!("agents/ada/hole-{number}")));
        file.unwrap().set_len(GIB).unwrap();
    }
    fixture.write("agents/ada/parts", b"at its start");
    let file = std::fs::OpenOptions::new().write(true).open(fixture.root().join("agents/ada/parts")).unwrap();
    let places: Vec<(u64, u64)> = (1..200_u64).map(|number| (number * (64 << 20) + number, number)).collect();
    for (offset, number) in &places {
        file.write_all_at(&number.to_be_bytes(), *offset).unwrap();
    }
    file.set_len(GIB * 1_000).unwrap();
    places
}

#[tokio::test]
async fn sparse_files_stay_sparse() {
    let old = Fixture::new().await;
    let places = write_sparse_files(&old);
    let archive = old.archive(None).await;
    assert!(archive.len() < 200_000, "{} bytes", archive.len());
    assert!(unzip(&archive).unwrap().len() < 4 << 20);
    let new = Fixture::new().await;
    let report = new.restore(&archive, None).await.unwrap();
    assert_eq!(report.files, 61);
    for number in 0..60 {
        let found = new.root().join(format!("agents/ada/hole-{number}")).metadata().unwrap();
        assert_eq!((found.len(), found.blocks()), (GIB, 0));
    }
    let file = std::fs::File::open(new.root().join("agents/ada/parts")).unwrap();
    let found = file.metadata().unwrap();
    assert!(found.len() == GIB * 1_000 && found.blocks() * 512 < 2 << 20, "{} blocks", found.blocks());
    let at = |offset: u64| {
        let mut bytes = [0; 8];
        file.read_exact_at(&mut bytes, offset).unwrap();
        u64::from_be_bytes(bytes)
    };
    assert!(places.iter().all(|(offset, number)| at(*offset) == *number && at(offset + 8) == 0));
    let mut start = [0; 12];
    file.read_exact_at(&mut start, 0).unwrap();
    assert_eq!(&start, b"at its start");
    // A backup of the restored files is sparse, too.
    assert!(new.archive(None).await.len().abs_diff(archive.len()) < 4_096);
}

/// The archive can be read without this program.
#[tokio::test]
#[allow(clippy::disallowed_methods, reason = "the test runs other programs")]
async fn archive_is_readable_with_standard_tools() {
    let old = Fixture::embedded().await;
    old.write("agents/ada/first", b"two names");
    let long = format!("agents/ada/{}/{}", "long".repeat(30), "name".repeat(50));
    for name in ["agents/ada/parts", &long] {
        old.write(name, b"at its start");
        let file = std::fs::OpenOptions::new().write(true).open(old.root().join(name)).unwrap();
        file.write_all_at(b"in the middle", 8 << 20).unwrap();
        file.set_len(16 << 20).unwrap();
    }
    std::fs::hard_link(old.root().join("agents/ada/first"), old.root().join("agents/ada/second")).unwrap();
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("a.tar.gz"), old.archive(None).await).unwrap();
    let python = "import tarfile; t = tarfile.open('a.tar.gz'); t.extractall('out', filter='fully_trusted')";
    for command in [&["mkdir", "out"] as &[&str], &["tar", "-xzf", "a.tar.gz", "-C", "out"], &["python3", "-c", python]]
    {
        let ran = std::process::Command::new(command[0]).args(&command[1..]).current_dir(folder.path()).output();
        let Ok(ran) = ran else {
            println!("NOT TESTED: {} is not installed", command[0]);
            continue;
        };
        assert!(ran.status.success(), "{command:?}: {}", String::from_utf8_lossy(&ran.stderr));
        if command[0] == "mkdir" {
            continue;
        }
        let out = folder.path().join("out");
        for name in ["agents/ada/parts", &long] {
            let (before, after) = (std::fs::read(old.root().join(name)), std::fs::read(out.join(name)));
            assert!(before.unwrap() == after.unwrap(), "{command:?} changed {name}");
        }
        assert_eq!(std::fs::read(out.join("agents/ada/second")).unwrap(), b"two names");
        std::fs::remove_dir_all(&out).unwrap();
    }
}

#[tokio::test]
async fn hard_linked_file_is_stored_once() {
    let old = Fixture::new().await;
    let content = Entropy::seeded(3);
    let content: Vec<u8> = (0..1 << 15).flat_map(|_| content.bytes::<32>()).collect();
    old.write("agents/ada/f0000", &content);
    old.write("agents/bob/file", b"x");
    for number in 1..1_000 {
        let name = old.root().join(format!("agents/ada/f{number:04}"));
        std::fs::hard_link(old.root().join("agents/ada/f0000"), name).unwrap();
    }
    // A restore never shares a file between two agents.
    std::fs::hard_link(old.root().join("agents/ada/f0000"), old.root().join("agents/bob/theirs")).unwrap();
    let archive = old.archive(None).await;
    assert!(archive.len() < 3 << 20, "{} bytes", archive.len());
    let new = Fixture::new().await;
    assert_eq!(new.restore(&archive, None).await.unwrap().files, 1_002);
    assert_eq!(new.state().await, old.state().await);
    assert_eq!(new.root().join("agents/ada/f0999").metadata().unwrap().nlink(), 1_000);
    assert_eq!(new.root().join("agents/bob/theirs").metadata().unwrap().nlink(), 1);
}

/// Programs create such paths step by step, relative to open folders.
#[tokio::test]
async fn paths_longer_than_the_path_limit_are_restored() {
    use rustix::fs::{Mode, OFlags, mkdirat, openat};
    let flags = OFlags::RDONLY | OFlags::DIRECTORY;
    let old = Fixture::new().await;
    old.write("agents/ada/top", b"x");
    let start = openat(rustix::fs::CWD, old.root().join("agents/ada"), flags, Mode::empty()).unwrap();
    let mut folder = start.try_clone().unwrap();
    for _ in 0..60 {
        mkdirat(&folder, "n".repeat(200), Mode::RWXU).unwrap();
        folder = openat(&folder, "n".repeat(200), flags, Mode::empty()).unwrap();
    }
    let file = openat(&folder, "file", OFlags::WRONLY | OFlags::CREATE, Mode::RWXU).unwrap();
    std::fs::File::from(file).write_all(b"deep").unwrap();
    rustix::fs::symlinkat("file", &folder, "link").unwrap();
    let archive = old.archive(None).await;
    let new = Fixture::new().await;
    assert_eq!(new.restore(&archive, None).await.unwrap().files, 2);
    // Restoring over the same files deletes the long paths that it replaces.
    assert_eq!(new.restore(&new.archive(None).await, None).await.unwrap().files, 2);
    assert_eq!(new.leftovers(), Vec::<String>::new());
    for fixture in [old, new] {
        agentd_sandbox::folder::remove_path(&fixture.root().join("agents")).unwrap();
    }
}

#[tokio::test]
async fn link_targets_are_preserved_exactly() {
    let old = Fixture::new().await;
    old.write("agents/ada/a/b", b"x");
    let long = format!("a//{}/./{}", "n".repeat(150), "m".repeat(150));
    let exact = "e".repeat(100);
    for (number, target) in ["a//b", "./a", "a/.", "a/", "./", "a/./b", ".", &long, &exact].into_iter().enumerate() {
        std::os::unix::fs::symlink(target, old.root().join(format!("agents/ada/link{number}"))).unwrap();
    }
    let new = Fixture::new().await;
    new.restore(&old.archive(None).await, None).await.unwrap();
    let state = new.state().await;
    assert_eq!(state, old.state().await);
    assert!(state.contains(&"link \"agents/ada/link0\" \"a//b\"".to_owned()), "{state:#?}");
}

/// The maximum depth is the same for creating and restoring an archive.
#[tokio::test]
async fn too_deep_path_is_reported() {
    let old = Fixture::new().await;
    let deepest = format!("agents{}", "/d".repeat(99));
    old.write(&format!("{deepest}/file"), b"x");
    let new = Fixture::new().await;
    new.restore(&old.archive(None).await, None).await.unwrap();
    assert_eq!(new.state().await, old.state().await);
    old.write(&format!("{deepest}/d/file"), b"x");
    let refused = old.backup.create(None, Unreadable::Refuse).await.map(|_| ()).unwrap_err();
    assert_eq!(agentd_base::DomainError::code(&refused), "incomplete");
    assert!(refused.to_string().contains("/d/d/file` (is nested deeper than 100 folders)"), "{refused}");
    let left = old.backup.create(None, Unreadable::LeaveOut).await.unwrap();
    assert_eq!(left.left_out.unreadable.total, 1);
    let stream: Vec<_> = left.stream.map(Result::unwrap).collect().await;
    new.restore(&stream.concat(), None).await.unwrap();
}

#[tokio::test]
async fn invalid_sparse_maps_and_names_are_rejected() {
    let old = Fixture::embedded().await;
    old.write("agents/ada/notes.txt", b"0\n");
    old.write("agents/bob/notes.txt", b"x");
    let plain = unzip(&old.archive(None).await).unwrap();
    let new = Fixture::new().await;
    let before = new.state().await;
    let map = |text: &str| [text.as_bytes(), &vec![0; 512 - text.len()]].concat();
    type Extra<'a> = (&'a str, &'a [(&'a str, &'a [u8])], tar::EntryType, &'a str, Vec<u8>);
    let known: &[(&str, &[u8])] = &[
        ("GNU.sparse.major", b"1"),
        ("GNU.sparse.minor", b"0"),
        ("GNU.sparse.name", b"agents/ada/extra"),
        ("GNU.sparse.realsize", b"100"),
    ];
    let outside: &[(&str, &[u8])] =
        &[known[0], known[1], ("GNU.sparse.name", b"agents/../../escaped"), ("GNU.sparse.realsize", b"100")];
    let file = tar::EntryType::Regular;
    let cases: [Extra<'_>; 13] = [
        ("another key", &[("path", b"agents/ada/x")], file, "", map("0\n")),
        ("another format", &[("GNU.sparse.major", b"2"), ("GNU.sparse.realsize", b"1")], file, "", map("0\n")),
        ("no size", &[("GNU.sparse.major", b"1")], file, "", map("0\n")),
        ("an extent beyond its end", known, file, "", [map("2\n50\n51\n100\n0\n"), vec![7; 51]].concat()),
        ("extents that overlap", known, file, "", [map("3\n10\n10\n19\n1\n100\n0\n"), vec![7; 11]].concat()),
        ("less than it says", known, file, "", [map("2\n0\n50\n100\n0\n"), vec![7; 49]].concat()),
        ("more than it says", known, file, "", [map("2\n0\n50\n100\n0\n"), vec![7; 51]].concat()),
        ("more extents than there can be", known, file, "", map("99999999999\n")),
        ("no end", known, file, "", [map("1\n0\n50\n"), vec![7; 50]].concat()),
        ("a name that leads out", outside, file, "", map("1\n100\n0\n")),
        ("a folder with holes", known, tar::EntryType::Directory, "", Vec::new()),
        ("a name of another agent's file", &[], tar::EntryType::Link, "agents/bob/notes.txt", Vec::new()),
        ("a name of the database", &[], tar::EntryType::Link, "database.jsonl", Vec::new()),
    ];
    for (what, pax, kind, target, content) in cases {
        let mut packed = tar::Builder::new(flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast()));
        for entry in tar::Archive::new(plain.as_slice()).entries().unwrap() {
            let mut entry = entry.unwrap();
            if entry.path_bytes().as_ref() == b"contents.jsonl" {
                if !pax.is_empty() {
                    packed.append_pax_extensions(pax.iter().copied()).unwrap();
                }
                let mut header = tar::Header::new_gnu();
                header.set_entry_type(kind);
                header.set_size(content.len() as u64);
                header.set_mode(0o600);
                header.set_path("agents/ada/extra").unwrap();
                if !target.is_empty() {
                    header.set_link_name(target).unwrap();
                }
                header.set_cksum();
                packed.append(&header, content.as_slice()).unwrap();
            }
            let header = entry.header().clone();
            packed.append(&header, &mut entry).unwrap();
        }
        let harmful = packed.into_inner().unwrap().finish().unwrap();
        let refused = new.restore(&harmful, None).await.unwrap_err();
        let text = refused.to_string();
        assert!(matches!(refused, BackupError::Archive { .. }), "{what}: {text}");
        assert!(!text.contains("list of contents"), "{what} is not detected by its own check: {text}");
        assert_eq!(new.state().await, before);
        assert_eq!(new.leftovers(), Vec::<String>::new());
    }
}
