use std::os::unix::fs::PermissionsExt;

use agentd_sandbox::{Backend, Policy, SandboxError};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::machine::machines;

#[tokio::test]
async fn ownership_of_files_is_mapped_in_both_directions() {
    use std::os::unix::fs::MetadataExt;
    for machine in machines().await {
        let workspace = machine.workspace();
        std::fs::create_dir(workspace.join("private")).unwrap();
        let private = std::fs::Permissions::from_mode(0o700);
        std::fs::set_permissions(workspace.join("private"), private).unwrap();
        std::fs::write(workspace.join("private/note"), "by the daemon").unwrap();
        let outcome =
            machine.shell("cat private/note; echo changed > private/note; mkdir -p a/b; echo new > a/b/c").await;
        assert_eq!(outcome.stdout.to_text(), "by the daemon", "{outcome:?}");
        assert_eq!(std::fs::read_to_string(workspace.join("private/note")).unwrap(), "changed\n");
        let made = std::fs::metadata(workspace.join("a/b/c")).unwrap();
        assert_eq!(made.uid(), std::fs::metadata(&workspace).unwrap().uid(), "{}", outcome.tier);
    }
}

#[tokio::test]
async fn paths_are_readable_writable_or_invisible() {
    for machine in machines().await {
        let root = machine.root.path().canonicalize().unwrap();
        let library = root.join("library");
        std::fs::create_dir(&library).unwrap();
        std::fs::write(library.join("book"), "words").unwrap();
        let mut request = machine.request("sh", &["-c", "cat \"$1\"; echo x > \"$1\" && echo written", "sh"]);
        request.arguments.push(library.join("book").into());
        request.readable_paths = vec![library.clone()];
        let outcome = machine.sandbox.run(request.clone()).await.unwrap();
        if machine.sandbox.policy().backend == Backend::None {
            continue;
        }
        assert_eq!(outcome.stdout.to_text(), "words", "{outcome:?}");
        request.readable_paths.clear();
        assert_eq!(machine.sandbox.run(request).await.unwrap().stdout.to_text(), "");
        // The policy opens a directory for every run.
        machine.sandbox.set_policy(Policy { writable_paths: vec![library.clone()], ..machine.sandbox.policy() });
        let script = format!("echo more >> {}/book", library.display());
        assert!(machine.shell(&script).await.ended.is_success());
        assert_eq!(std::fs::read_to_string(library.join("book")).unwrap(), "wordsmore\n");
        // A removed directory is skipped.
        std::fs::remove_dir_all(&library).unwrap();
        assert!(machine.shell("true").await.ended.is_success());
        assert_eq!(machine.sandbox.unusable_paths().len(), 1);
    }
}

#[tokio::test]
async fn daemon_data_is_never_opened_even_through_links() {
    for machine in machines().await {
        let data = machine.root.path().join("data");
        let mut request = machine.request("true", &[]);
        request.readable_paths = vec![data.clone()];
        let error = machine.sandbox.run(request.clone()).await.unwrap_err();
        assert!(matches!(error, SandboxError::PathRefused { .. }), "{error:?}");
        machine.shell("ln -s ../ sub").await;
        request.readable_paths = vec![machine.workspace().join("sub")];
        let error = machine.sandbox.run(request).await.unwrap_err();
        assert!(error.to_string().contains("the daemon's own data"), "{error}");
    }
}

#[tokio::test]
async fn network_access_requires_the_proxy_socket() {
    for machine in machines().await {
        let directory = machine.root.path().join("data/proxy");
        std::fs::create_dir(&directory).unwrap();
        std::fs::set_permissions(&directory, std::fs::Permissions::from_mode(0o700)).unwrap();
        let path = directory.join("socket");
        let listener = tokio::net::UnixListener::bind(&path).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
        let proxy = tokio::spawn(async move {
            loop {
                let (mut connection, _) = listener.accept().await.unwrap();
                let mut bytes = vec![0; 4096];
                let length = connection.read(&mut bytes).await.unwrap();
                let first = String::from_utf8_lossy(&bytes[..length]).lines().next().unwrap_or_default().to_owned();
                let answer =
                    format!("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: {}\r\n\r\n{first}", first.len());
                connection.write_all(answer.as_bytes()).await.unwrap();
            }
        });
        let script = "import urllib.request; print(urllib.request.urlopen('http://example.com/page').read().decode())";
        let mut request = machine.request("/usr/bin/python3", &["-c", script]);
        request.proxy_socket = Some(path.clone());
        let error = machine.sandbox.run(request.clone()).await.unwrap_err();
        assert!(matches!(error, SandboxError::NetworkForbidden), "{error:?}");
        machine.sandbox.set_policy(Policy { network: true, ..machine.sandbox.policy() });
        match (machine.sandbox.policy().backend, machine.sandbox.run(request.clone()).await) {
            (Backend::Landlock, answer) => assert!(matches!(answer, Err(SandboxError::NetworkUnsupported { .. }))),
            (_, answer) => {
                let outcome = answer.unwrap();
                assert_eq!(outcome.stdout.to_text(), "GET http://example.com/page HTTP/1.1\n", "{outcome:?}");
            }
        }
        // A run that does not request the network has no access, regardless of the policy.
        if machine.sandbox.policy().backend != Backend::None {
            request.proxy_socket = None;
            assert!(!machine.sandbox.run(request).await.unwrap().ended.is_success());
        }
        proxy.abort();
    }
}

#[tokio::test]
async fn runs_leave_nothing_behind() {
    for machine in machines().await {
        machine.shell("true").await;
        let count = || {
            let state = machine.root.path().join("data/sandbox");
            let names = std::fs::read_dir(state)
                .unwrap()
                .flatten()
                .filter(|entry| !entry.file_name().to_string_lossy().starts_with("etc-"));
            let mounts = std::fs::read_to_string("/proc/self/mountinfo").unwrap().lines().count();
            (names.count(), mounts)
        };
        let before = count();
        for number in 0..25 {
            let script = match number % 3 {
                0 => "true",
                1 => "setsid sleep 1000 & echo $TMPDIR; exit 1",
                _ => "mkdir -p $TMPDIR/a/b && touch $TMPDIR/a/b/c && chmod 0 $TMPDIR/a/b $TMPDIR/a",
            };
            machine.shell(script).await;
        }
        assert_eq!(count(), before);
    }
}
