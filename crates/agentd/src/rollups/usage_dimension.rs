//! What the usage of a period is asked by.

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UsageDimension {
    Model,
    Agent,
    Project,
    Origin,
    Key,
}

impl UsageDimension {
    pub const ALL: [Self; 5] = [Self::Agent, Self::Key, Self::Model, Self::Origin, Self::Project];

    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Model => "model",
            Self::Agent => "agent",
            Self::Project => "project",
            Self::Origin => "origin",
            Self::Key => "key",
        }
    }
}
