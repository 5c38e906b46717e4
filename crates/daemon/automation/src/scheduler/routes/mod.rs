//! `/api/scheduler/*`.

mod chains;
mod job_bodies;
mod jobs;
mod parse;
mod runs;
mod smart;
mod statistics;

use agentd_web::{ApiRouter, Routes, routes};

use super::service::Scheduler;

/// Returns the routes of the scheduler.
#[must_use]
pub(super) fn routes() -> Routes<Scheduler> {
    Routes::new().protected(
        ApiRouter::new()
            .routes(routes!(jobs::list_jobs, jobs::create_job))
            .routes(routes!(jobs::get_job, jobs::update_job, jobs::delete_job))
            .routes(routes!(jobs::pause_job))
            .routes(routes!(jobs::resume_job))
            .routes(routes!(runs::trigger_job))
            .routes(routes!(runs::list_job_runs))
            .routes(routes!(runs::get_job_run))
            .routes(routes!(runs::cancel_job_run))
            .routes(routes!(statistics::get_job_statistics))
            .routes(routes!(statistics::get_scheduler_statistics))
            .routes(routes!(statistics::get_scheduler_status))
            .routes(routes!(chains::list_chains, chains::create_chain))
            .routes(routes!(chains::get_chain, chains::delete_chain))
            .routes(routes!(chains::trigger_chain))
            .routes(routes!(chains::list_chain_runs))
            .routes(routes!(parse::parse_schedule))
            .routes(routes!(parse::validate_schedule))
            .routes(routes!(smart::list_suggestions))
            .routes(routes!(smart::get_activity_heatmap))
            .routes(routes!(smart::get_calendar_data)),
    )
}
