//! How far a build is, told to whoever watches; the CLI draws bars from it.

/// One thing to show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// A step begins.
    Step {
        /// Its number, from 1.
        number: u32,
        /// How many there are.
        of: u32,
        /// What is done in it.
        what: &'static str,
    },
    /// Units done within the present step (bytes, packages, percent; whatever `total` counts).
    Done {
        /// So far.
        done: u64,
        /// Of how many.
        total: u64,
    },
}

/// Receives progress. Must be quick; it is called from within the build.
pub type Watcher<'a> = &'a (dyn Fn(Progress) + Send + Sync);

/// Counts the steps of one build.
pub(crate) struct Steps<'a> {
    watcher: Watcher<'a>,
    number: u32,
    of: u32,
}

impl<'a> Steps<'a> {
    pub(crate) fn new(watcher: Watcher<'a>, of: u32) -> Self {
        Self {
            watcher,
            number: 0,
            of,
        }
    }

    pub(crate) fn next(&mut self, what: &'static str) {
        self.number += 1;
        tracing::debug!(what, "image build step");
        (self.watcher)(Progress::Step {
            number: self.number,
            of: self.of,
            what,
        });
    }

    pub(crate) fn done(&self, done: u64, total: u64) {
        (self.watcher)(Progress::Done { done, total });
    }
}
