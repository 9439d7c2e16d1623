//! A client of QEMU's monitor protocol (QMP): one task per monitor owns the stream, executes commands one after
//! the other and puts events into the guest's [`Pending`] set.
//!
//! Invariants: a command is sent at most once; a command that is not answered in time costs the stream (its late
//! answer must not be taken for another's) and the task connects anew; a command whose asker has gone is not sent.
//! A lost monitor is tried again until the client is dropped: a silent monitor is a sick guest, not a dead one.
//! The protocol is QEMU's `docs/interop/qmp-spec.txt`.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, sleep, sleep_until, timeout};

use crate::error::{ProtocolError, QmpError};
use crate::event::{GuestEvent, Pending};
use crate::limits::{
    QMP_COMMAND_MAX, QMP_CONNECT_MAX, QMP_GREETING_MAX, QMP_LINE_BYTES_MAX, QMP_QUEUE_MAX,
    QMP_RECONNECT_FIRST, QMP_RECONNECT_MAX,
};

/// A handle on one monitor. The task behind it ends when the handle is dropped.
#[derive(Debug)]
pub(crate) struct Qmp {
    commands: mpsc::Sender<Command>,
}

#[derive(Debug)]
struct Command {
    name: &'static str,
    arguments: Value,
    reply: oneshot::Sender<Result<Value, QmpError>>,
}

impl Qmp {
    /// Connects, waits for the greeting and leaves negotiation behind. Also answers the pid of the process that
    /// listens on the socket, as the kernel knows it.
    pub(crate) async fn connect(path: &Path, events: Arc<Pending>) -> Result<(Self, Option<i32>), QmpError> {
        let (session, listener) = Session::open(path).await?;
        let (commands, queue) = mpsc::channel(QMP_QUEUE_MAX);
        tokio::spawn(
            Task {
                path: path.to_owned(),
                queue,
                events,
            }
            .run(session),
        );
        Ok((Self { commands }, listener))
    }

    /// Executes one command and answers what it returned.
    pub(crate) async fn execute(&self, name: &'static str, arguments: Value) -> Result<Value, QmpError> {
        let (reply, answer) = oneshot::channel();
        match self.commands.try_send(Command {
            name,
            arguments,
            reply,
        }) {
            Ok(()) => {}
            Err(mpsc::error::TrySendError::Full(_)) => return Err(QmpError::Busy),
            Err(mpsc::error::TrySendError::Closed(_)) => return Err(QmpError::Ended),
        }
        // The task's own bound is the same and usually fires first; this one covers the wait in the queue of a
        // monitor that is lost.
        match timeout(QMP_COMMAND_MAX, answer).await {
            Ok(Ok(answer)) => answer,
            Ok(Err(_)) => Err(QmpError::Ended),
            Err(_) => Err(QmpError::Timeout {
                what: name,
                waited: QMP_COMMAND_MAX,
            }),
        }
    }
}

struct Task {
    path: PathBuf,
    queue: mpsc::Receiver<Command>,
    events: Arc<Pending>,
}

/// Why a session ended.
enum End {
    ClientDropped,
    Lost(QmpError),
}

impl Task {
    async fn run(mut self, mut session: Session) {
        loop {
            match self.serve(&mut session).await {
                End::ClientDropped => return,
                End::Lost(error) => tracing::debug!(path = ?self.path, %error, "monitor lost"),
            }
            // Close the old stream first: QEMU serves one client at a time.
            drop(session);
            let Some(next) = self.reconnect().await else {
                return;
            };
            session = next;
            self.events.add(GuestEvent::MonitorBack);
        }
    }

    async fn reconnect(&mut self) -> Option<Session> {
        let mut pause = QMP_RECONNECT_FIRST;
        loop {
            tokio::select! {
                () = closed(&self.queue) => return None,
                () = sleep(pause) => {}
            }
            tokio::select! {
                () = closed(&self.queue) => return None,
                opened = Session::open(&self.path) => match opened {
                    Ok((session, _)) => return Some(session),
                    Err(error) => tracing::trace!(path = ?self.path, %error, "monitor still lost"),
                },
            }
            pause = (pause * 2).min(QMP_RECONNECT_MAX);
        }
    }

    async fn serve(&mut self, session: &mut Session) -> End {
        let mut in_flight: Option<(Command, Instant)> = None;
        loop {
            let deadline = in_flight.as_ref().map(|(_, deadline)| *deadline);
            tokio::select! {
                command = self.queue.recv(), if in_flight.is_none() => {
                    let Some(command) = command else { return End::ClientDropped };
                    if command.reply.is_closed() {
                        continue;
                    }
                    match session.send(command.name, &command.arguments).await {
                        Ok(()) => in_flight = Some((command, Instant::now() + QMP_COMMAND_MAX)),
                        Err(error) => return lost(Some(command), error),
                    }
                }
                message = session.receive() => match message {
                    Ok(Message::Event { name, data }) => {
                        if let Some(event) = GuestEvent::from_monitor(&name, &data) {
                            self.events.add(event);
                        }
                    }
                    Ok(Message::Answer { id, result }) => match in_flight.take() {
                        Some((command, _)) if id == session.last_id => answer(command, result),
                        other => {
                            let got = format!("an answer with id {id}");
                            let error = ProtocolError::Unexpected { expected: "the answer to the last command", got };
                            return lost(other.map(|(command, _)| command), QmpError::Protocol(error));
                        }
                    },
                    Err(error) => return lost(in_flight.map(|(command, _)| command), error),
                },
                () = sleep_until(deadline.unwrap_or_else(Instant::now)), if deadline.is_some() => {
                    let command = in_flight.map(|(command, _)| command);
                    let what = command.as_ref().map_or("a command", |command| command.name);
                    return lost(command, QmpError::Timeout { what, waited: QMP_COMMAND_MAX });
                }
            }
        }
    }
}

/// Ends when no handle is left. The receiver has no future for this, so it looks now and then; it does so only
/// while a monitor is lost.
async fn closed(queue: &mpsc::Receiver<Command>) {
    while queue.sender_strong_count() > 0 {
        sleep(QMP_RECONNECT_FIRST).await;
    }
}

fn answer(command: Command, result: Result<Value, Refusal>) {
    let result = result.map_err(|refusal| QmpError::Refused {
        command: command.name,
        class: refusal.class,
        description: refusal.description,
    });
    // An asker that has gone no longer cares.
    drop(command.reply.send(result));
}

/// Tells the asker of a command under way that its outcome is unknown.
fn lost(command: Option<Command>, error: QmpError) -> End {
    let Some(command) = command else {
        return End::Lost(error);
    };
    let shown = io::Error::other(error.to_string());
    drop(command.reply.send(Err(error)));
    End::Lost(QmpError::Stream(shown))
}

struct Refusal {
    class: String,
    description: String,
}

enum Message {
    Event { name: String, data: Value },
    Answer { id: u64, result: Result<Value, Refusal> },
}

/// One negotiated stream.
struct Session {
    lines: Lines,
    writer: OwnedWriteHalf,
    last_id: u64,
}

impl Session {
    async fn open(path: &Path) -> Result<(Self, Option<i32>), QmpError> {
        let failed = |source| QmpError::Connect {
            path: path.to_owned(),
            source,
        };
        let connecting = timeout(QMP_CONNECT_MAX, UnixStream::connect(path));
        let stream = connecting
            .await
            .unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
            .map_err(failed)?;
        let listener = stream.peer_cred().ok().and_then(|cred| cred.pid());
        let (reader, writer) = stream.into_split();
        let mut session = Self {
            lines: Lines {
                reader,
                buffer: Vec::new(),
            },
            writer,
            last_id: 0,
        };
        let negotiating = timeout(QMP_GREETING_MAX, session.negotiate());
        match negotiating.await {
            Ok(negotiated) => negotiated?,
            Err(_) => {
                return Err(QmpError::Timeout {
                    what: "the greeting",
                    waited: QMP_GREETING_MAX,
                });
            }
        }
        Ok((session, listener))
    }

    async fn negotiate(&mut self) -> Result<(), QmpError> {
        let greeting = self.lines.next().await?;
        if greeting.get("QMP").is_none() {
            return Err(unexpected("a greeting", &greeting));
        }
        self.send("qmp_capabilities", &Value::Null).await?;
        match self.receive().await? {
            Message::Answer { result: Ok(_), .. } => Ok(()),
            Message::Answer {
                result: Err(refusal), ..
            } => Err(unexpected(
                "capabilities accepted",
                &Value::String(refusal.description),
            )),
            Message::Event { name, .. } => Err(unexpected("capabilities accepted", &Value::String(name))),
        }
    }

    async fn send(&mut self, name: &'static str, arguments: &Value) -> Result<(), QmpError> {
        self.last_id += 1;
        let mut command = json!({"execute": name, "id": self.last_id});
        if !arguments.is_null() {
            command["arguments"] = arguments.clone();
        }
        let mut line = command.to_string();
        line.push('\n');
        match timeout(QMP_COMMAND_MAX, self.writer.write_all(line.as_bytes())).await {
            Ok(written) => written.map_err(QmpError::Stream),
            Err(_) => Err(QmpError::Timeout {
                what: name,
                waited: QMP_COMMAND_MAX,
            }),
        }
    }

    /// The next event or answer. Cancelling loses nothing.
    async fn receive(&mut self) -> Result<Message, QmpError> {
        let mut line = self.lines.next().await?;
        if let Some(name) = line.get("event").and_then(Value::as_str) {
            return Ok(Message::Event {
                name: name.to_owned(),
                data: line["data"].take(),
            });
        }
        let Some(id) = line.get("id").and_then(Value::as_u64) else {
            return Err(unexpected("an event or an answer with an id", &line));
        };
        if let Some(error) = line.get("error") {
            let text = |key: &str| {
                error
                    .get(key)
                    .and_then(Value::as_str)
                    .unwrap_or_default()
                    .to_owned()
            };
            let refusal = Refusal {
                class: text("class"),
                description: text("desc"),
            };
            return Ok(Message::Answer {
                id,
                result: Err(refusal),
            });
        }
        match line.get_mut("return") {
            Some(value) => Ok(Message::Answer {
                id,
                result: Ok(value.take()),
            }),
            None => Err(unexpected("a return or an error", &line)),
        }
    }
}

fn unexpected(expected: &'static str, got: &Value) -> QmpError {
    let mut got = got.to_string();
    got.truncate(got.char_indices().nth(200).map_or(got.len(), |(at, _)| at));
    QmpError::Protocol(ProtocolError::Unexpected { expected, got })
}

/// Splits a stream into lines of JSON, keeping what is left over between calls.
struct Lines {
    reader: OwnedReadHalf,
    buffer: Vec<u8>,
}

impl Lines {
    async fn next(&mut self) -> Result<Value, QmpError> {
        loop {
            if let Some(end) = self.buffer.iter().position(|&byte| byte == b'\n') {
                let line: Vec<u8> = self.buffer.drain(..=end).collect();
                return serde_json::from_slice(&line)
                    .map_err(|error| QmpError::Protocol(ProtocolError::Json(error)));
            }
            if self.buffer.len() > QMP_LINE_BYTES_MAX {
                return Err(QmpError::Protocol(ProtocolError::LineTooLong));
            }
            match self.reader.read_buf(&mut self.buffer).await {
                Ok(0) => return Err(QmpError::Stream(io::ErrorKind::UnexpectedEof.into())),
                Ok(_) => {}
                Err(error) => return Err(QmpError::Stream(error)),
            }
        }
    }
}

#[cfg(test)]
mod tests;
