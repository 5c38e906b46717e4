//! Single run: a load with a fault, followed by a check.

use std::path::Path;
use std::sync::LazyLock;
use std::time::Duration;

use agentd_store::{Db, StoreError, Tx, args};
use agentd_testing_store::faults::{Fault, FaultKind, FaultyDisk, Image, Operations, Unsynced};

use super::check::{After, check, repeat_unanswered};
use super::load::{Ledger, Load, TABLES};
use crate::support::options;

/// Attempts within which a store must recover.
const MAX_READY_ATTEMPTS: u32 = 20;

pub(super) struct Run {
    pub(super) fault: Option<Fault>,
    pub(super) seed: u64,
    /// Share of the data of a failed sync that reaches the disk.
    pub(super) failed_syncs: Unsynced,
    pub(super) writes_much: bool,
    /// Deliberate misbehaviour, to prove that it would be detected.
    pub(super) answers_before_commit: bool,
    pub(super) ignores_rewriting: bool,
}

pub(super) struct Outcome {
    pub(super) violations: Vec<String>,
    pub(super) injected: u64,
    pub(super) operations: Operations,
}

/// Database with all tables but no rows.
static TEMPLATE: LazyLock<Vec<u8>> = LazyLock::new(|| {
    std::thread::spawn(|| {
        let folder = tempfile::tempdir().unwrap();
        super::runtime().block_on(async {
            let db = Db::open(options(folder.path())).await.unwrap();
            for table in TABLES {
                let made: Result<u64, StoreError> =
                    db.write(async |tx: &mut Tx| tx.execute(*table, args![]).await).await;
                made.unwrap();
            }
            db.close().await;
        });
        std::fs::read(folder.path().join("agentd.db")).unwrap()
    })
    .join()
    .unwrap()
});

impl Run {
    pub(super) fn new(fault: Option<Fault>, seed: u64) -> Self {
        let (failed_syncs, writes_much) = (Unsynced::Lost, false);
        Self { fault, seed, failed_syncs, writes_much, answers_before_commit: false, ignores_rewriting: false }
    }

    pub(super) async fn execute(&self) -> Outcome {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("agentd.db"), &*TEMPLATE).unwrap();
        let disk = FaultyDisk::watch(folder.path(), self.failed_syncs).unwrap();
        if let Some(fault) = self.fault {
            disk.plan(fault);
        }
        if self.ignores_rewriting {
            disk.ignore_rewriting();
        }
        let load = Load::new(self.answers_before_commit, self.writes_much);
        let open = self.load(&disk, folder.path(), &load).await;
        let mut ledger = std::mem::take(&mut *load.ledger.lock());
        let mut violations = std::mem::take(&mut ledger.violations);
        match &open {
            // The power stays off; only what was acknowledged before counts.
            _ if self.is_cut() => {}
            Ok(db) => violations.extend(self.after_fault(db, &disk, &mut ledger).await),
            Err(error) => violations.push(format!("the store does not open any more: {error:?}")),
        }
        let mut images = vec![
            (After::PowerCut, disk.after_power_cut(Unsynced::Lost)),
            (After::PowerCut, disk.after_power_cut(Unsynced::Half(self.seed))),
        ];
        if !self.is_cut() {
            images.push((After::Kill, disk.after_kill()));
        }
        if let Ok(db) = open {
            db.close().await;
        }
        for (after, image) in images {
            let found = check_image(&image, &mut ledger, after, self.is_cut()).await;
            let found = found.unwrap_or_else(|error| vec![format!("it cannot be used: {error:?}")]);
            violations.extend(found.into_iter().map(|found| format!("after {after:?}: {found}")));
        }
        Outcome { violations, injected: disk.injected(), operations: disk.operations() }
    }

    fn is_cut(&self) -> bool {
        self.fault.is_some_and(|fault| fault.kind == FaultKind::PowerCut)
    }

    /// Runs two daemon lifetimes. A daemon that cannot start is restarted, when the fault is gone.
    async fn load(&self, disk: &FaultyDisk, folder: &Path, load: &Load) -> Result<Db, StoreError> {
        let open = async || match Db::open(options(folder)).await {
            Err(_) if !self.is_cut() => {
                disk.clear();
                Db::open(options(folder)).await
            }
            opened => opened,
        };
        let db = open().await?;
        load.run_part(&db, 0).await;
        db.close().await;
        let db = open().await?;
        load.run_part(&db, 1).await;
        Ok(db)
    }

    /// Ends the fault and checks that the store recovers by itself.
    async fn after_fault(&self, db: &Db, disk: &FaultyDisk, ledger: &mut Ledger) -> Vec<String> {
        let is_lying = self.fault.is_some_and(|fault| fault.kind == FaultKind::NoSync);
        if !is_lying {
            disk.clear();
        }
        let mut last = Ok(());
        for _ in 0..MAX_READY_ATTEMPTS {
            last = db.check().await;
            if last.is_ok() {
                break;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        if let Err(error) = last {
            return vec![format!("it is not ready again by itself: {error:?}")];
        }
        match repeat_unanswered(db, ledger).await {
            Ok(found) => found.into_iter().map(|found| format!("while it runs: {found}")).collect(),
            Err(error) => vec![format!("it does not write again by itself: {error:?}")],
        }
    }
}

async fn check_image(
    image: &Image,
    ledger: &mut Ledger,
    after: After,
    repeats: bool,
) -> Result<Vec<String>, StoreError> {
    let folder = tempfile::tempdir()?;
    image.write_to(folder.path())?;
    let db = Db::open(options(folder.path())).await?;
    let mut found = check(&db, ledger, after).await?;
    if repeats && found.is_empty() {
        let mut again = Ledger { asked: ledger.asked.clone(), refused: ledger.refused.clone(), ..Ledger::default() };
        again.written.clone_from(&ledger.written);
        found = repeat_unanswered(&db, &mut again).await?;
    }
    db.close().await;
    Ok(found)
}
