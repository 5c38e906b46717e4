//! CPU requirements.
//!
//! The engine's kernels are compiled for one x86-64 level, without runtime dispatch; on an older CPU they would
//! terminate the process with an illegal instruction.

/// Returns a message about missing CPU features, if any.
#[must_use]
pub fn missing_cpu_features() -> Option<String> {
    let missing = missing();
    (!missing.is_empty()).then(|| {
        format!(
            "this processor lacks {}, which the built-in model requires; use a provider instead, or build without \
             the feature `local-model`",
            missing.join(", ")
        )
    })
}

#[cfg(target_arch = "x86_64")]
fn missing() -> Vec<&'static str> {
    let features = [
        ("SSE4.2", std::arch::is_x86_feature_detected!("sse4.2")),
        ("AVX", std::arch::is_x86_feature_detected!("avx")),
        ("AVX2", std::arch::is_x86_feature_detected!("avx2")),
        ("BMI2", std::arch::is_x86_feature_detected!("bmi2")),
        ("FMA", std::arch::is_x86_feature_detected!("fma")),
        ("F16C", std::arch::is_x86_feature_detected!("f16c")),
    ];
    features.into_iter().filter(|(_, there)| !there).map(|(name, _)| name).collect()
}

/// Other architectures are compiled for their baseline.
#[cfg(not(target_arch = "x86_64"))]
fn missing() -> Vec<&'static str> {
    Vec::new()
}
