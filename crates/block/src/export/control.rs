//! The control socket of an export: one JSON line a question, one JSON line the answer, one question a connection.
//!
//! The client checks with the kernel that the process that listens is the one it means; the server bounds line length,
//! time and connections. Later parts add questions here (keys, snapshot cuts); a version that is not ours is refused before
//! anything else.

use std::io;
use std::path::Path;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::Semaphore;
use tokio::time::timeout;

use super::config::ExportStatus;
use super::process::ProcessIdentity;
use crate::limits;

/// Version of the control protocol.
pub const CONTROL_VERSION: u32 = 1;

/// A question.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Question {
    /// Who are you?
    Status,
    /// Look again how large the volume is, then answer as [`Question::Status`].
    RefreshSize,
}

#[derive(Debug, Serialize, Deserialize)]
struct QuestionLine {
    version: u32,
    question: Question,
}

/// An answer.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    /// The export's state.
    Status(Box<ExportStatus>),
    /// The question was not understood or not served.
    Refused {
        /// Why.
        reason: String,
    },
}

/// Why an export gave no answer.
#[derive(Debug, thiserror::Error)]
pub enum ControlError {
    /// Nobody listens, or the connection broke.
    #[error("the export's control socket does not answer")]
    Io(#[from] io::Error),
    /// No answer in time.
    #[error("the export's control socket did not answer in time")]
    TimedOut,
    /// Somebody else listens.
    #[error("the control socket belongs to process {0:?}, not to the export")]
    ForeignPeer(Option<i32>),
    /// The answer is not one of ours.
    #[error("the export's answer is malformed")]
    Malformed(#[from] serde_json::Error),
    /// The export refused.
    #[error("the export refused: {reason}")]
    Refused {
        /// Its reason.
        reason: String,
    },
}

/// Asks the export that `process` should be.
pub async fn ask(
    socket: &Path,
    process: &ProcessIdentity,
    question: Question,
) -> Result<ExportStatus, ControlError> {
    timeout(limits::CONTROL_ANSWER_WAIT, async {
        let mut stream = UnixStream::connect(socket).await?;
        let peer = stream.peer_cred()?.pid();
        if peer != Some(process.pid) {
            return Err(ControlError::ForeignPeer(peer));
        }
        let mut line = serde_json::to_vec(&QuestionLine {
            version: CONTROL_VERSION,
            question,
        })?;
        line.push(b'\n');
        stream.write_all(&line).await?;
        match serde_json::from_slice(&read_line(&mut stream).await?)? {
            Answer::Status(status) => Ok(*status),
            Answer::Refused { reason } => Err(ControlError::Refused { reason }),
        }
    })
    .await
    .unwrap_or(Err(ControlError::TimedOut))
}

async fn read_line(stream: &mut UnixStream) -> io::Result<Vec<u8>> {
    let mut line = Vec::new();
    let bound = limits::CONTROL_LINE_MAX as u64;
    BufReader::new(stream.take(bound))
        .read_until(b'\n', &mut line)
        .await?;
    if line.pop() == Some(b'\n') {
        Ok(line)
    } else {
        Err(io::ErrorKind::UnexpectedEof.into())
    }
}

/// Answers questions until the task is ended; `answer` is asked for each one that was understood.
pub async fn answer_all<F, A>(listener: UnixListener, answer: F)
where
    F: Fn(Question) -> A + Send + Sync + 'static,
    A: Future<Output = Answer> + Send + 'static,
{
    let answer = Arc::new(answer);
    let connections = Arc::new(Semaphore::new(limits::CONTROL_CONNECTIONS_MAX));
    loop {
        let Ok(permit) = Arc::clone(&connections).acquire_owned().await else {
            return;
        };
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            Err(error) => {
                tracing::warn!(%error, "control socket: accept failed");
                tokio::time::sleep(limits::LOCK_POLL).await;
                continue;
            }
        };
        let answer = Arc::clone(&answer);
        tokio::spawn(async move {
            let _permit = permit;
            if let Ok(Err(error)) =
                timeout(limits::CONTROL_ANSWER_WAIT, answer_one(stream, answer.as_ref())).await
            {
                tracing::debug!(%error, "control connection ended");
            }
        });
    }
}

async fn answer_one<F, A>(mut stream: UnixStream, answer: &F) -> io::Result<()>
where
    F: Fn(Question) -> A,
    A: Future<Output = Answer>,
{
    let line = read_line(&mut stream).await?;
    let reply = match serde_json::from_slice::<QuestionLine>(&line) {
        Ok(question) if question.version == CONTROL_VERSION => answer(question.question).await,
        Ok(question) => Answer::Refused {
            reason: format!("unsupported version {}", question.version),
        },
        Err(error) => Answer::Refused {
            reason: error.to_string(),
        },
    };
    let mut bytes = serde_json::to_vec(&reply)?;
    bytes.push(b'\n');
    stream.write_all(&bytes).await
}
