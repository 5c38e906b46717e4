//! Import of settings in one transaction.

use std::sync::Arc;

use agentd_base::FieldProblem;
use agentd_store::{Recorder, Tx};
use serde_json::{Map, Value};

use super::Settings;
use super::change::{Origin, SettingsChange, all_views, qualify, write_all};
use crate::settings::error::SettingsError;
use crate::settings::safety::{SafetyReport, SafetyScope};

/// Result of an import.
#[derive(Debug, Clone)]
pub struct ImportedSettings {
    /// All sections by name.
    pub sections: Map<String, Value>,
    /// Secrets that must be entered again because the import changed their destination, such as `email.password`.
    pub dropped_secrets: Vec<String>,
    pub safety: SafetyReport,
}

impl Settings {
    /// Merges all sections of an export into the current ones, all or nothing. Write-only fields retain their values,
    /// except those whose destination changes, which are dropped. Safety settings are unchanged unless `safety`
    /// includes them.
    ///
    /// # Errors
    /// `Invalid` with all sections and fields that are unknown or invalid.
    pub async fn import(
        &self,
        sections: Map<String, Value>,
        safety: SafetyScope,
        recorder: Recorder<ImportedSettings>,
    ) -> Result<ImportedSettings, SettingsError> {
        let mut changes = Vec::new();
        let mut portable_sections = Vec::new();
        let mut problems = Vec::new();
        let others = self.others();
        for (name, value) in sections {
            if let Some(portable) = others.iter().find(|portable| portable.name() == name) {
                portable_sections.push((Arc::clone(portable), value));
                continue;
            }
            let shown: String = name.chars().take(64).collect();
            let field = format!("settings.{shown}");
            match (self.0.registry.find(&name), value) {
                (None, _) => {
                    let names = others.iter().map(|portable| portable.name());
                    let known = self.0.registry.names().into_iter().chain(names).collect::<Vec<_>>().join(", ");
                    problems.push(FieldProblem { field, message: format!("is unknown; known categories: {known}") });
                }
                (Some(section), Value::Object(fields)) => {
                    let mut prepared = self.prepare_section(*section, fields).await;
                    prepared.change.secrets.clear();
                    changes.push(prepared);
                }
                (Some(_), _) => problems.push(FieldProblem { field, message: "must be an object".to_owned() }),
            }
        }
        if !problems.is_empty() {
            // Problems within the known sections are reported together with the unknown ones.
            for SettingsChange { section, change } in &changes {
                problems.extend(change.problems.iter().map(|problem| qualify(section.name, problem)));
            }
            return Err(SettingsError::Invalid(problems));
        }
        let (vault, registry) = (self.0.vault.clone(), Arc::clone(&self.0.registry));
        let imported: Vec<_> = portable_sections.iter().map(|(portable, _)| Arc::clone(portable)).collect();
        let work = async move |tx: &mut Tx| {
            let written = write_all(tx, &vault, &changes, Origin::Import(safety)).await;
            let (mut problems, mut dropped) = (Vec::new(), Vec::new());
            let mut reports = SafetyReport::default();
            for (portable, value) in &portable_sections {
                let found = portable.import(tx, value, safety).await?;
                problems.extend(found.problems.iter().map(|problem| qualify(portable.name(), problem)));
                dropped.extend(found.dropped_secrets.iter().map(|secret| format!("{}.{secret}", portable.name())));
                reports.extend(found.safety);
            }
            let mut written = match written {
                Ok(written) if problems.is_empty() => written,
                Ok(_) => return Err(SettingsError::Invalid(problems)),
                Err(SettingsError::Invalid(found)) => {
                    return Err(SettingsError::Invalid(found.into_iter().chain(problems).collect()));
                }
                Err(error) => return Err(error),
            };
            dropped.splice(0..0, std::mem::take(&mut written.dropped_secrets));
            let mut safety = std::mem::take(&mut written.safety);
            safety.extend(reports);
            let sections = all_views(&registry, &others, tx).await?;
            let imported = ImportedSettings { sections, dropped_secrets: dropped, safety };
            recorder.record(tx, &imported).await?;
            Ok::<_, SettingsError>((written, imported))
        };
        let (written, imported_settings) = self.0.db.write(work).await?;
        self.apply_committed(written).await;
        for portable in imported {
            portable.imported().await;
        }
        Ok(imported_settings)
    }
}
