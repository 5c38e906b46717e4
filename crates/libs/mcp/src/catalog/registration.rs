//! Connection details of a registered server.

use agentd_base::Secret;

/// Server that can be connected to.
#[derive(Debug, Clone)]
pub struct Registration {
    pub name: String,
    pub transport: RegistrationTransport,
}

#[derive(Debug, Clone)]
pub enum RegistrationTransport {
    Stdio {
        /// Program name to look up, or a path.
        command: String,
        arguments: Vec<String>,
        environment: Vec<EnvironmentVariable>,
    },
    Http {
        url: String,
        headers: Vec<(String, Secret)>,
    },
}

#[derive(Debug, Clone)]
pub struct EnvironmentVariable {
    pub name: String,
    pub value: EnvironmentValue,
}

#[derive(Debug, Clone)]
pub enum EnvironmentValue {
    Plain(String),
    Secret(Secret),
}
