//! Model of projects and their changes.

use agentd_base::{FieldProblem, Patch, Problems, Timestamp};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

agentd_base::typed_id!(
    /// The id of a project.
    ProjectId,
    "proj"
);
agentd_store::stored_ids!(ProjectId);

pub(super) const MAX_PROJECTS: u64 = 10_000;
const MAX_NAME_CHARACTERS: usize = 200;
const MAX_DESCRIPTION_CHARACTERS: usize = 4_000;

/// Status of a project.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ProjectStatus {
    #[default]
    Active,
    Paused,
    Completed,
    Archived,
}

impl ProjectStatus {
    const ALL: [Self; 4] = [Self::Active, Self::Paused, Self::Completed, Self::Archived];

    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Active => "active",
            Self::Paused => "paused",
            Self::Completed => "completed",
            Self::Archived => "archived",
        }
    }

    /// A table constraint guarantees one of these values.
    pub(super) fn from_stored(text: &str) -> Self {
        Self::ALL.into_iter().find(|status| status.as_str() == text).unwrap_or_default()
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Project {
    pub id: ProjectId,
    pub name: String,
    pub description: Option<String>,
    pub status: ProjectStatus,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
}

/// Changes to a project, or fields of a new one.
#[derive(Debug, Clone, Default)]
pub struct ProjectChange {
    pub name: Option<String>,
    pub description: Patch<String>,
    pub status: Option<ProjectStatus>,
}

impl Project {
    /// Validates a project whose texts are trimmed.
    pub(super) fn check(&self) -> Result<(), Vec<FieldProblem>> {
        let mut problems = Problems::new();
        problems.require(
            (1..=MAX_NAME_CHARACTERS).contains(&self.name.chars().count()),
            "name",
            format!("must have 1 to {MAX_NAME_CHARACTERS} characters"),
        );
        problems.require(
            self.description.as_ref().is_none_or(|text| text.chars().count() <= MAX_DESCRIPTION_CHARACTERS),
            "description",
            format!("must have at most {MAX_DESCRIPTION_CHARACTERS} characters"),
        );
        problems.into_result()
    }

    /// Returns the project after a change; identical if nothing changes.
    pub(super) fn changed(&self, change: &ProjectChange, now: Timestamp) -> Self {
        let mut changed = self.clone();
        if let Some(name) = &change.name {
            changed.name = name.split_whitespace().collect::<Vec<_>>().join(" ");
        }
        change.description.clone().apply(&mut changed.description);
        changed.description = changed.description.map(|text| text.trim().to_owned()).filter(|text| !text.is_empty());
        changed.status = change.status.unwrap_or(changed.status);
        if changed != *self {
            changed.updated_at = now;
        }
        changed
    }

    /// Whether its status changed to `completed`.
    pub(super) fn has_just_completed(&self, before: Option<&Self>) -> bool {
        self.status == ProjectStatus::Completed && before.is_none_or(|before| before.status != ProjectStatus::Completed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn garden() -> Project {
        Project {
            id: ProjectId::from("proj_1"),
            name: "Garden".to_owned(),
            description: Some("Beds.".to_owned()),
            status: ProjectStatus::Active,
            created_at: Timestamp::from_micros(1),
            updated_at: Timestamp::from_micros(1),
        }
    }

    #[test]
    fn update_without_changes_keeps_updated_at() {
        let same = ProjectChange { name: Some(" Garden ".to_owned()), ..ProjectChange::default() };
        assert_eq!(garden().changed(&same, Timestamp::from_micros(9)), garden());
        let cleared = ProjectChange { description: Patch::Set("  ".to_owned()), ..ProjectChange::default() };
        let changed = garden().changed(&cleared, Timestamp::from_micros(9));
        assert_eq!((changed.description, changed.updated_at), (None, Timestamp::from_micros(9)));
    }

    #[test]
    fn project_completes_once() {
        let done = ProjectChange { status: Some(ProjectStatus::Completed), ..ProjectChange::default() };
        let completed = garden().changed(&done, Timestamp::from_micros(9));
        assert!(completed.has_just_completed(Some(&garden())) && completed.has_just_completed(None));
        assert!(!completed.has_just_completed(Some(&completed)));
        assert!(!garden().has_just_completed(None));
    }
}
