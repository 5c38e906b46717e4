//! Common programs work within the default limits.

use std::path::Path;

use agentd_sandbox::Ended;

use crate::machine::{machines, text};

const PYTHON: &str = "
import time, mmap, multiprocessing, threading, subprocess, socket, select, tempfile, os
def work(n):
    block = bytearray(8 << 20)
    return n * n
shared = mmap.mmap(-1, 32 << 20)
shared.write(b'1' * (32 << 20))
try:
    numbers = multiprocessing.Array('i', 1000)
    with multiprocessing.Pool(8) as pool:
        assert sum(pool.map(work, range(200))) == 2646700
except OSError:
    pass  # Where there is no /dev/shm.
threads = [threading.Thread(target=work, args=(n,)) for n in range(24)]
[t.start() for t in threads]; [t.join() for t in threads]
pairs = [socket.socketpair() for _ in range(40)]
poll = select.epoll()
[poll.register(s) for pair in pairs for s in pair]
for _ in range(10):
    subprocess.run(['true'], check=True)
unreaped = [subprocess.Popen(['true']) for _ in range(20)]
time.sleep(0.5)
with tempfile.TemporaryDirectory() as folder:
    for n in range(2000):
        open(os.path.join(folder, str(n)), 'w').write('x' * 100)
memory = bytearray(64 << 20)
memory[:] = b'1' * len(memory)
print('fits')
";

const NODE: &str = "
const { Worker } = require('worker_threads');
const { execFileSync } = require('child_process');
const workers = [1, 2, 3, 4].map(n => new Promise((done, failed) => {
  const worker = new Worker('Buffer.alloc(4 << 20, 1)', { eval: true });
  worker.on('exit', done); worker.on('error', failed);
}));
const kept = Array.from({ length: 100 }, () => Buffer.alloc(1 << 20, 1));
for (let n = 0; n < 5; n++) execFileSync('true');
Promise.all(workers).then(() => console.log(kept.length === 100 ? 'fits' : 'lost'));
";

const GIT: &str = "
export GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@b GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@b
git init -q tree && cd tree
for n in $(seq 300); do echo $n > file-$n; done
git add . && git commit -qm all && git gc -q && git clone -q . ../copy && git -C ../copy log --oneline | wc -l | grep -q 1 && echo fits
";

#[tokio::test]
async fn common_programs_work_within_the_default_limits() {
    let programs = [
        ("/usr/bin/python3", ["-c", PYTHON]),
        ("/usr/bin/node", ["-e", NODE]),
        ("/usr/bin/git", ["", ""]),
        ("/usr/bin/pip", ["list", "--no-index"]),
    ];
    for machine in machines().await {
        for (program, arguments) in programs {
            if !Path::new(program).exists() {
                println!("NOT TESTED: there is no {program}");
                continue;
            }
            let outcome = match program {
                "/usr/bin/git" => machine.shell(GIT).await,
                _ => machine.run(program, &arguments).await,
            };
            let (tier, (text, errors)) = (outcome.tier, text(&outcome));
            assert_eq!(outcome.ended, Ended::Exited { code: 0 }, "{program} in {tier}: {errors}");
            assert!(text.contains("fits") || program.ends_with("pip"), "{program} in {tier}: {errors}");
        }
    }
}
