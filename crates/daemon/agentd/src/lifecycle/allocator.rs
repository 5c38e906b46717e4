//! Settings of the allocator.

/// Lets threads share the arenas of the allocator, one for each processor. The default of eight for each processor
/// retains what threads once needed in arenas that other threads cannot use. Must be called before threads start.
#[cfg(target_env = "gnu")]
#[allow(unsafe_code, reason = "the allocator is reached through C")]
pub fn share_allocator_arenas() {
    let processors = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    // SAFETY: sets a number of the allocator (mallopt(3)); a value that it does not take changes nothing.
    unsafe {
        libc::mallopt(libc::M_ARENA_MAX, i32::try_from(processors.max(2)).unwrap_or(i32::MAX));
    }
}

#[cfg(not(target_env = "gnu"))]
pub fn share_allocator_arenas() {}
