//! Faults while a database is created, migrated and closed.

use agentd_store::{Db, StoreError, args};
use agentd_testing_store::faults::{Fault, FaultKind, FaultyDisk, Unsynced};

use super::{runtime, seed, steps};
use crate::support::options;

/// A partially created database is completed by the next start.
#[test]
fn start_interrupted_by_a_fault_is_completed_by_the_next() {
    let (runtime, seed) = (runtime(), seed());
    let first_start = async |fault: Option<Fault>| {
        let folder = tempfile::tempdir().unwrap();
        let disk = FaultyDisk::watch(folder.path(), Unsynced::Lost).unwrap();
        if let Some(fault) = fault {
            disk.plan(fault);
        }
        if let Ok(db) = Db::open(options(folder.path())).await {
            db.close().await;
        }
        disk.clear();
        (folder, disk)
    };
    let (_, clean) = runtime.block_on(first_start(None));
    let mut tried = 0;
    for kind in [FaultKind::PowerCut, FaultKind::WriteError, FaultKind::SyncError, FaultKind::NoSpace] {
        for first in steps(clean.operations().matching(kind), 8, seed) {
            let (folder, disk) = runtime.block_on(first_start(Some(Fault { kind, first, times: 1 })));
            let left = [
                (kind != FaultKind::PowerCut).then_some(None),
                Some(Some(disk.after_power_cut(Unsynced::Lost))),
                Some(Some(disk.after_power_cut(Unsynced::Half(seed.wrapping_add(first))))),
            ];
            for image in left.into_iter().flatten() {
                let found: Result<String, StoreError> = runtime.block_on(async {
                    let other = tempfile::tempdir()?;
                    let path = match &image {
                        None => folder.path(),
                        Some(image) => {
                            image.write_to(other.path())?;
                            other.path()
                        }
                    };
                    let db = Db::open(options(path)).await?;
                    db.check().await?;
                    let check = db.read().await?.fetch_one("PRAGMA integrity_check", args![]).await?.first();
                    db.close().await;
                    check
                });
                tried += 1;
                assert_eq!(
                    found.map_err(|e| format!("{e:?}")).as_deref(),
                    Ok("ok"),
                    "{kind:?} at {first}, seed {seed}"
                );
            }
        }
    }
    assert!(tried > 20);
}
