use super::*;

#[test]
fn defaults_listen_only_on_loopback() {
    let config = Config::from_source(ConfigSource::default()).unwrap();
    assert_eq!(config.listen.to_string(), "127.0.0.1:7878");
    assert_eq!(config.base_url, "http://127.0.0.1:7878");
    assert!(!config.api_key_required);
}

#[test]
fn all_invalid_values_are_reported_together() {
    let source = ConfigSource {
        host: Some("everywhere".into()),
        port: Some("70000".into()),
        api_key_required: Some("perhaps".into()),
        database_url: Some(Secret::new("mysql://x".into())),
        base_url: Some("agents.example".into()),
        cors_origins: Some("https://ok.example, nonsense, https://x.example/path".into()),
        allowed_hosts: Some("a.example,https://b.example".into()),
        trusted_proxies: Some("10.0.0.0/99".into()),
        log: Some("agentd=loud=very".into()),
        log_format: Some("xml".into()),
        secret_key_file: Some("/".into()),
        embedding_model: Some("/".into()),
        otlp_endpoint: Some("collector:4318".into()),
        otlp_headers: Some(Secret::new("s3cret".into())),
        otlp_content: Some("some".into()),
        ..ConfigSource::default()
    };
    let ConfigError(problems) = Config::from_source(source).unwrap_err();
    for name in [
        "SVC_HOST",
        "SVC_PORT",
        "SVC_API_KEY_REQUIRED",
        "SVC_DATABASE_URL",
        "SVC_BASE_URL",
        "`nonsense`",
        "x.example/path",
        "SVC_ALLOWED_HOSTS",
        "SVC_TRUSTED_PROXIES",
        "SVC_LOG ",
        "SVC_LOG_FORMAT",
        "SVC_SECRET_KEY_FILE",
        "SVC_EMBEDDING_MODEL",
        "SVC_OTLP_ENDPOINT",
        "SVC_OTLP_HEADERS",
        "SVC_OTLP_CONTENT",
    ] {
        assert!(problems.iter().any(|problem| problem.contains(name)), "{name} in {problems:?}");
    }
    assert!(!problems.iter().any(|problem| problem.contains("s3cret")), "{problems:?}");
}

#[test]
fn embedding_model_is_the_configured_file_or_in_model_directories() {
    let source = ConfigSource { data_dir: Some("/data".into()), ..ConfigSource::default() };
    let paths = Config::from_source(source.clone()).unwrap().embedding_model_paths();
    assert_eq!(paths, [PathBuf::from("/data/models/all-minilm-l6-v2-q8_0.gguf")]);
    let source = ConfigSource { models_dir: Some("/m".into()), ..source };
    let paths = Config::from_source(source.clone()).unwrap().embedding_model_paths();
    assert_eq!(paths[1..], [PathBuf::from("/m/all-minilm-l6-v2-q8_0.gguf")]);
    let named = ConfigSource { embedding_model: Some("/m/own.gguf".into()), ..source };
    let config = Config::from_source(named.clone()).unwrap();
    assert_eq!(config.embedding_model_paths(), [PathBuf::from("/m/own.gguf")]);
    let empty = ConfigSource { embedding_model: Some("".into()), ..named };
    assert!(Config::from_source(empty).unwrap_err().0[0].contains("SVC_EMBEDDING_MODEL"));
}

#[test]
fn database_url_must_name_a_host() {
    for (url, is_valid) in [
        ("postgres://db.example", true),
        ("postgres://u:p@db.example:5432/agentd?sslmode=require", true),
        ("postgres://[::1]:5432/x", true),
        ("postgresql://u@%2Fvar%2Frun/agentd", true),
        ("postgres:///agentd?host=/var/run/postgresql", true),
        ("postgres://", false),
        ("postgres:///agentd", false),
        ("postgres://u:p@/agentd", false),
        ("postgres://:5432/agentd", false),
        ("postgres:///agentd?host=", false),
    ] {
        let source = ConfigSource { database_url: Some(Secret::new(url.into())), ..ConfigSource::default() };
        assert_eq!(Config::from_source(source).is_ok(), is_valid, "{url}");
    }
}

#[test]
fn misspelled_log_level_is_rejected() {
    for (log, is_valid) in [
        ("info", true),
        ("WARN", true),
        ("off", true),
        ("agentd=debug", true),
        ("warn,agentd=trace,sqlx=off", true),
        ("agentd[request]=debug", true),
        ("loud", false),
        ("info,verbose", false),
        ("agentd", false),
        ("agentd=loud", false),
    ] {
        let config = Config::from_source(ConfigSource { log: Some(log.into()), ..ConfigSource::default() });
        assert_eq!(config.is_ok(), is_valid, "{log}");
    }
}

#[test]
fn base_url_defines_a_host_name() {
    let source = ConfigSource { base_url: Some("https://agents.example:8443/".into()), ..ConfigSource::default() };
    let config = Config::from_source(source).unwrap();
    assert_eq!(config.base_url, "https://agents.example:8443");
    assert_eq!(config.host_names(), ["agents.example"]);
}

#[test]
fn default_dev_origin_cannot_set_up_a_release_build() {
    let dev = "http://localhost:5173".to_owned();
    let config = Config::from_source(ConfigSource::default()).unwrap();
    assert!(config.allowed_origins(config.listen).contains(&dev));
    assert!(config.setup_origins_of_build(config.listen, true).contains(&dev));
    let origins = config.setup_origins_of_build(config.listen, false);
    assert!(!origins.contains(&dev) && origins.contains(&"http://127.0.0.1:7878".to_owned()), "{origins:?}");
    let named = ConfigSource { ui_dev_origin: Some(dev.clone()), ..ConfigSource::default() };
    let named = Config::from_source(named).unwrap();
    assert!(named.setup_origins_of_build(named.listen, false).contains(&dev));
}

#[test]
fn origins_are_normalized_as_browsers_do() {
    for (base_url, origin) in [
        ("https://agents.example:443", "https://agents.example"),
        ("http://Agents.Example:80/", "http://agents.example"),
        ("https://agents.example/daemon/", "https://agents.example"),
        ("https://agents.example:8443/daemon", "https://agents.example:8443"),
        ("http://[::1]:80", "http://[::1]"),
    ] {
        let source = ConfigSource {
            base_url: Some(base_url.into()),
            cors_origins: Some("https://UI.example:443/".into()),
            ..ConfigSource::default()
        };
        let config = Config::from_source(source).unwrap();
        let origins = config.allowed_origins(config.listen);
        assert!(origins.iter().any(|found| found == origin), "{origin} in {origins:?}");
        assert!(origins.iter().any(|found| found == "https://ui.example"), "{origins:?}");
        assert!(!config.base_url.ends_with('/'));
    }
    for base_url in ["https:agents.example", "https://u:p@agents.example", "https://a.example/?x", "ftp://a.example"] {
        let source = ConfigSource { base_url: Some(base_url.into()), ..ConfigSource::default() };
        assert!(Config::from_source(source).is_err(), "{base_url}");
    }
}

#[test]
fn secret_of_higher_source_overrides_value_and_file_of_lower() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("url");
    std::fs::write(&file, "postgres://db.example/from-file\n").unwrap();
    let by_file = ConfigSource { database_url_file: Some(file), ..ConfigSource::default() };
    let by_value = ConfigSource {
        database_url: Some(Secret::new("postgres://db.example/value".into())),
        ..ConfigSource::default()
    };
    for (source, expected) in [
        (by_file.clone().or(by_value.clone()), "postgres://db.example/from-file"),
        (by_value.clone().or(by_file.clone()), "postgres://db.example/value"),
    ] {
        let url = Config::from_source(source).unwrap().database_url.unwrap();
        assert_eq!(url.expose(), expected);
    }
    let both = ConfigSource { database_url: by_value.database_url, ..by_file };
    let problems = Config::from_source(both).unwrap_err().0;
    assert!(problems[0].contains("both set"), "{problems:?}");
}

#[test]
fn systemd_credentials_are_read() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("database_url"), "mysql://s3cret").unwrap();
    std::fs::write(folder.path().join("otlp_headers"), "s3cret").unwrap();
    let source = ConfigSource {
        credentials_dir: Some(folder.path().to_path_buf()),
        otlp_endpoint: Some("http://localhost:4318".into()),
        ..ConfigSource::default()
    };
    let problems = Config::from_source(source).unwrap_err().0;
    for name in ["SVC_DATABASE_URL must begin with", "SVC_OTLP_HEADERS: "] {
        assert!(problems.iter().any(|problem| problem.contains(name)), "{name} in {problems:?}");
    }
    assert!(!problems.iter().any(|problem| problem.contains("s3cret")), "{problems:?}");
}

#[test]
fn opentelemetry_variables_are_read() {
    let variables =
        |list: &[(&str, &str)]| ConfigSource { otel: list.iter().copied().collect(), ..ConfigSource::default() };
    assert!(Config::from_source(variables(&[])).unwrap().telemetry.is_none());
    let all = [("OTEL_EXPORTER_OTLP_ENDPOINT", "http://localhost:4318"), ("OTEL_SERVICE_NAME", "ada")];
    assert!(Config::from_source(variables(&all)).unwrap().telemetry.is_some());
    let problems = Config::from_source(variables(&[("OTEL_EXPORTER_OTLP_ENDPOINT", "nowhere")])).unwrap_err().0;
    assert!(problems[0].contains("OTEL_EXPORTER_OTLP_ENDPOINT"), "{problems:?}");
}
