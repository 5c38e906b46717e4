//! Threads that help searches. One stays for a while when its work is done, because beginning a thread takes as long
//! as a good part of what it is for; when nobody searches there is none.
//!
//! A thread that waited must not go on where whoever asks is at work: there it would only take that one's time. The
//! kernel wakes it just there when it takes the other processors for busy, as it does with those of a virtual machine
//! that sleep. So it is kept away from that one until it has begun somewhere else.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread::ThreadId;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

/// For how long one waits for more.
const STAYS: Duration = Duration::from_secs(10);
/// One that is older ends when it has nothing to do: what processors there are may have changed since it began.
const LIVES: Duration = Duration::from_secs(600);
/// Of all searches in one index together.
const MOST: usize = 8;
/// What more is asked for is not done: whoever asked does it all alone.
const MOST_WAITING: usize = 32;

type Work = Box<dyn FnOnce() + Send>;

/// A thread that may be kept away from a processor.
struct Seat {
    thread: ThreadId,
    place: place::Place,
}

impl Seat {
    /// Of the thread that calls this.
    fn take() -> Self {
        Self { thread: std::thread::current().id(), place: place::Place::of_this_thread() }
    }

    fn avoid(&mut self, processor: Option<usize>) {
        if let Some(processor) = processor {
            self.place.avoid(processor);
        }
    }
}

#[cfg(target_os = "linux")]
mod place {
    use rustix::thread::{CpuSet, Pid, gettid, sched_getaffinity, sched_getcpu, sched_setaffinity};

    /// Where a thread may run.
    pub(super) struct Place {
        thread: Pid,
        /// All that it was given; `None` where that cannot be told.
        given: Option<CpuSet>,
        /// Until it is woken.
        avoids: Option<usize>,
    }

    impl Place {
        pub(super) fn of_this_thread() -> Self {
            Self { thread: gettid(), given: sched_getaffinity(None).ok(), avoids: None }
        }

        pub(super) fn avoid(&mut self, processor: usize) {
            let Some(mut allowed) = self.given.filter(|_| self.avoids != Some(processor)) else { return };
            allowed.unset(processor);
            // Refused where nothing else is left, and where what was given is no longer there: then it stays as it is.
            if sched_setaffinity(Some(self.thread), &allowed).is_ok() {
                self.avoids = Some(processor);
            }
        }

        /// Lets it go anywhere again.
        pub(super) fn release(&mut self) {
            if let (Some(_), Some(given)) = (self.avoids.take(), &self.given) {
                // Refused where all of that is gone; then the kernel has chosen others already.
                let _ = sched_setaffinity(Some(self.thread), given);
            }
        }
    }

    /// The processor that runs whoever calls this.
    pub(super) fn current() -> Option<usize> {
        Some(sched_getcpu()).filter(|processor| *processor < CpuSet::MAX_CPU)
    }
}

#[cfg(not(target_os = "linux"))]
mod place {
    pub(super) struct Place;

    impl Place {
        pub(super) fn of_this_thread() -> Self {
            Self
        }

        pub(super) fn avoid(&mut self, _: usize) {}

        pub(super) fn release(&mut self) {}
    }

    pub(super) fn current() -> Option<usize> {
        None
    }
}

#[derive(Default)]
struct Desk {
    waiting: VecDeque<Work>,
    threads: usize,
    /// Those that wait.
    idle: Vec<Seat>,
    is_closed: bool,
}

#[derive(Default)]
struct Shared {
    desk: Mutex<Desk>,
    /// There is work, or there will be none any more.
    news: Condvar,
    stays: Duration,
}

/// Dropped, it lets its threads end when they are done; nobody waits for them.
pub(crate) struct Helpers(Arc<Shared>);

impl Default for Helpers {
    fn default() -> Self {
        Self::staying(STAYS)
    }
}

impl std::fmt::Debug for Helpers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Helpers").field("threads", &self.0.desk.lock().threads).finish_non_exhaustive()
    }
}

impl Helpers {
    fn staying(stays: Duration) -> Self {
        Self(Arc::new(Shared { stays, ..Shared::default() }))
    }

    /// Has it done soon, or never: where no thread can be had, and where too much waits already.
    pub(crate) fn ask(&self, work: impl FnOnce() + Send + 'static) {
        let mut desk = self.0.desk.lock();
        if desk.waiting.len() >= MOST_WAITING {
            return;
        }
        desk.waiting.push_back(Box::new(work));
        if desk.idle.len() >= desk.waiting.len() {
            let here = place::current();
            desk.idle.iter_mut().for_each(|seat| seat.avoid(here));
            drop(desk);
            self.0.news.notify_one();
        } else if desk.threads < MOST {
            desk.threads += 1;
            drop(desk);
            let shared = Arc::clone(&self.0);
            if std::thread::Builder::new().name("search".to_owned()).spawn(move || shared.serve()).is_err() {
                let mut desk = self.0.desk.lock();
                desk.threads -= 1;
                // With nobody there it would wait for ever, and keep others from being asked for.
                let left = if desk.threads == 0 { std::mem::take(&mut desk.waiting) } else { VecDeque::new() };
                drop(desk);
                drop(left);
            }
        }
    }
}

impl Drop for Helpers {
    fn drop(&mut self) {
        let mut desk = self.0.desk.lock();
        desk.is_closed = true;
        let waiting = std::mem::take(&mut desk.waiting);
        drop(desk);
        self.0.news.notify_all();
        drop(waiting);
    }
}

impl Shared {
    fn serve(&self) {
        let (me, began) = (std::thread::current().id(), Instant::now());
        let mut seat = Some(Seat::take());
        let mut desk = self.desk.lock();
        loop {
            if let Some(work) = desk.waiting.pop_front() {
                drop(desk);
                // Whoever asked learns of a panic by its own means.
                let _ = catch_unwind(AssertUnwindSafe(work));
                desk = self.desk.lock();
                continue;
            }
            if desk.is_closed || began.elapsed() > LIVES {
                break;
            }
            desk.idle.extend(seat.take());
            let is_enough = self.news.wait_for(&mut desk, self.stays).timed_out();
            let mine = desk.idle.iter().position(|idle| idle.thread == me);
            seat = mine.map(|at| desk.idle.swap_remove(at));
            if let Some(seat) = &mut seat {
                seat.place.release();
            }
            if is_enough && desk.waiting.is_empty() {
                break;
            }
        }
        desk.threads -= 1;
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    const SOON: Duration = Duration::from_secs(20);

    fn until(is_so: impl Fn() -> bool) {
        let began = Instant::now();
        while !is_so() {
            assert!(began.elapsed() < SOON);
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    #[test]
    fn one_thread_does_one_thing_after_the_other_and_ends_when_nothing_comes() {
        let helpers = Helpers::staying(Duration::from_millis(50));
        let (sender, receiver) = mpsc::channel();
        for number in 0..20 {
            let sender = sender.clone();
            helpers.ask(move || sender.send(number).unwrap());
            assert_eq!(receiver.recv_timeout(SOON), Ok(number));
            let is_ready = |desk: &Desk| desk.idle.len() == 1 || desk.threads == 0;
            until(|| is_ready(&helpers.0.desk.lock()));
            assert!(helpers.0.desk.lock().threads <= 1);
        }
        until(|| helpers.0.desk.lock().threads == 0);
        helpers.ask(move || sender.send(20).unwrap());
        assert_eq!(receiver.recv_timeout(SOON), Ok(20));
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_thread_is_kept_away_from_one_processor_until_it_is_let_go() {
        use rustix::thread::sched_getaffinity;

        let given = sched_getaffinity(None).unwrap();
        let mut place = place::Place::of_this_thread();
        let here = place::current().unwrap();
        place.avoid(here);
        let left = sched_getaffinity(None).unwrap();
        // With one processor it stays where it is.
        assert_eq!(left.count(), given.count().max(2) - 1);
        assert!(given.count() == 1 || (!left.is_set(here) && place::current() != Some(here)));
        place.release();
        assert_eq!(sched_getaffinity(None).unwrap(), given);
    }

    #[test]
    fn threads_and_what_waits_for_them_are_bounded_and_a_panic_ends_none() {
        let helpers = Helpers::default();
        let (hold, held) = mpsc::channel::<()>();
        let held = Arc::new(Mutex::new(held));
        let (sender, done) = mpsc::channel();
        for _ in 0..3 * (MOST + MOST_WAITING) {
            let (held, sender) = (Arc::clone(&held), sender.clone());
            helpers.ask(move || {
                sender.send(()).unwrap();
                let _ = held.lock().recv();
                panic!("wanted by a test");
            });
        }
        {
            let desk = helpers.0.desk.lock();
            assert!(desk.threads <= MOST && desk.waiting.len() <= MOST_WAITING);
        }
        drop((hold, sender));
        let began = done.iter().count();
        assert!((MOST..=MOST + MOST_WAITING + MOST).contains(&began), "{began}");
        let are_all_idle = |desk: &Desk| desk.idle.len() == desk.threads;
        until(|| are_all_idle(&helpers.0.desk.lock()));
        let shared = Arc::clone(&helpers.0);
        drop(helpers);
        until(|| shared.desk.lock().threads == 0);
    }
}
