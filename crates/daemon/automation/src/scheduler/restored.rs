//! Validation of jobs and chains restored from an archive, by the rules that apply when they are saved. A tick could
//! not report an invalid job to a client.

use agentd_base::{FieldProblem, Page, Problems};
use agentd_core::runtime::ValidateRestored;
use agentd_store::{Read, StoreError, Tx};
use futures_util::FutureExt;
use futures_util::future::LocalBoxFuture;

use super::model::{Chain, Job, JobFields, JobStatus};
use super::store::{chains, jobs};

const BATCH_SIZE: u32 = 200;

/// Validates restored jobs and chains.
#[derive(Debug)]
pub struct ValidateJobs;

impl ValidateRestored for ValidateJobs {
    fn validate<'t>(&'t self, tx: &'t mut Tx) -> LocalBoxFuture<'t, Result<Option<String>, StoreError>> {
        find_fault(tx).boxed_local()
    }
}

async fn find_fault(read: &mut Read) -> Result<Option<String>, StoreError> {
    if jobs::has_due_deleted_job(read).await? {
        return Ok(Some("the archive contains a deleted job that is due".to_owned()));
    }
    let mut after = String::new();
    loop {
        let batch = jobs::list_after(read, &after, BATCH_SIZE).await?;
        let Some((last, _)) = batch.last() else { break };
        after.clone_from(last);
        for (id, row) in batch {
            let fault = match row {
                Ok(job) => job_problem(&job),
                Err(StoreError::Column { column, source }) => {
                    Some(format!("the {column} of the job `{}` cannot be read: {source}", escape_and_truncate(&id)))
                }
                Err(error) => return Err(error),
            };
            if fault.is_some() {
                return Ok(fault);
            }
        }
    }
    let mut page = Page { limit: BATCH_SIZE, offset: 0 };
    loop {
        let (batch, _) = chains::list_chains(read, page).await?;
        if let Some(fault) = batch.iter().find_map(chain_problem) {
            return Ok(Some(fault));
        }
        if batch.len() < BATCH_SIZE as usize {
            return Ok(None);
        }
        page.offset += u64::from(BATCH_SIZE);
    }
}

fn job_problem(job: &Job) -> Option<String> {
    let mut problems = Problems::new();
    let _ = job.clone().apply(&JobFields::default(), &mut problems);
    let is_due = job.next_run_at.is_some();
    problems.require(
        !is_due || job.status == JobStatus::Active,
        "next_run_at",
        "is set although the job is not active",
    );
    let found = problems.into_result().err()?;
    Some(format!("the job `{}` is not valid: {}", escape_and_truncate(&job.name), format_problems(&found)))
}

fn chain_problem(chain: &Chain) -> Option<String> {
    let mut problems = Problems::new();
    chain.check(&mut problems);
    let found = problems.into_result().err()?;
    Some(format!("the chain `{}` is not valid: {}", escape_and_truncate(&chain.name), format_problems(&found)))
}

fn format_problems(problems: &[FieldProblem]) -> String {
    let messages: Vec<String> =
        problems.iter().map(|problem| format!("{} {}", problem.field, problem.message)).collect();
    messages.join("; ")
}

fn escape_and_truncate(text: &str) -> String {
    text.chars().take(80).collect::<String>().escape_debug().to_string()
}
