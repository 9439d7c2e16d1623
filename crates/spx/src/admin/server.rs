//! Answers the operator's commands on `run/admin.sock`.
//!
//! One connection a question, a bounded number at once. Lists read the store over all accounts; nothing here is a second
//! truth. `down` is passed to whoever runs the cloud, with a way to tell the asker how it goes.

use super::{Answer, ImportImage, Line, Question, Table};
use crate::layout::DataDir;
use crate::up::Operator;
use anyhow::Context;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::unix::OwnedWriteHalf;
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{Semaphore, mpsc, oneshot};
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tracing::{debug, warn};

/// Longest question in bytes.
const QUESTION_BYTES_MAX: u64 = 64 * 1024;
/// Time a client has to ask.
const QUESTION_WAIT: Duration = Duration::from_secs(10);
/// Time that open questions have to be answered when the server closes.
const ANSWER_WAIT: Duration = Duration::from_secs(5);
/// Questions answered at once.
const QUESTIONS_MAX: usize = 16;
/// Progress lines that may wait for a slow client; more are dropped.
const PROGRESS_PENDING_MAX: usize = 64;

/// Somebody asked for the end of the cloud.
pub struct Ending {
    /// Takes what is being done.
    pub progress: mpsc::Sender<String>,
    /// Takes the outcome: nothing, or what went wrong.
    pub done: oneshot::Sender<Option<String>>,
}

/// The listening server.
pub struct AdminServer {
    task: JoinHandle<()>,
    socket: PathBuf,
    slots: Arc<Semaphore>,
}

impl AdminServer {
    /// Stops listening, and waits a bounded time until what was asked is answered.
    pub async fn close(self) {
        self.task.abort();
        if let Err(error) = std::fs::remove_file(&self.socket) {
            debug!(%error, "the admin socket was gone already");
        }
        let all = u32::try_from(QUESTIONS_MAX).unwrap_or(u32::MAX);
        if timeout(ANSWER_WAIT, self.slots.acquire_many(all)).await.is_err() {
            warn!("an operator's question was not answered in time");
        }
    }
}

/// Opens the socket and answers until it is closed. The receiver gets the first wish to end.
///
/// # Errors
/// The socket cannot be made.
pub fn start(dir: &DataDir, operator: Operator) -> io::Result<(AdminServer, mpsc::Receiver<Ending>)> {
    let socket = dir.admin_socket();
    // The data directory's lock is ours, so a socket that is there is a dead process's.
    match std::fs::remove_file(&socket) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let listener = UnixListener::bind(&socket)?;
    std::fs::set_permissions(&socket, std::fs::Permissions::from_mode(0o600))?;
    let (ending, receiver) = mpsc::channel(1);
    let operator = Arc::new(operator);
    let slots = Arc::new(Semaphore::new(QUESTIONS_MAX));
    let places = slots.clone();
    let task = tokio::spawn(async move {
        loop {
            let Ok(slot) = places.clone().acquire_owned().await else {
                return;
            };
            let stream = match listener.accept().await {
                Ok((stream, _)) => stream,
                Err(error) => {
                    warn!(%error, "accepting on the admin socket");
                    tokio::time::sleep(Duration::from_millis(100)).await;
                    continue;
                }
            };
            let (operator, ending) = (operator.clone(), ending.clone());
            tokio::spawn(async move {
                if let Err(error) = serve(stream, &operator, ending).await {
                    debug!(%error, "an operator's connection ended");
                }
                drop(slot);
            });
        }
    });
    Ok((AdminServer { task, socket, slots }, receiver))
}

async fn serve(stream: UnixStream, operator: &Operator, ending: mpsc::Sender<Ending>) -> anyhow::Result<()> {
    let (reader, mut writer) = stream.into_split();
    let mut line = String::new();
    let mut reader = BufReader::new(reader.take(QUESTION_BYTES_MAX));
    timeout(QUESTION_WAIT, reader.read_line(&mut line))
        .await
        .context("waiting for the question")??;
    if line.is_empty() {
        // Somebody only wanted to know whether anybody listens.
        return Ok(());
    }
    let outcome = match serde_json::from_str(&line) {
        Ok(question) => answer(question, operator, ending, &mut writer).await,
        Err(error) => Err(error).context("the question is not understood"),
    };
    let last = match outcome {
        Ok(answer) => Line::Done { answer },
        Err(error) => Line::Failed {
            message: format!("{error:#}"),
        },
    };
    send(&mut writer, &last).await
}

async fn answer(
    question: Question,
    operator: &Operator,
    ending: mpsc::Sender<Ending>,
    writer: &mut OwnedWriteHalf,
) -> anyhow::Result<Answer> {
    Ok(match question {
        Question::Status => Answer::Status(operator.status().await?),
        Question::Nodes => Answer::Table(operator.nodes().await?),
        Question::Instances => Answer::Table(operator.instances().await?),
        Question::Reconcilers => Answer::Table(operator.reconcilers()),
        Question::Images => Answer::Table(operator.images().await?),
        Question::ImportImage(import) => Answer::Image(import_image(operator, import, writer).await?),
        Question::RemoveImage { image } => {
            operator.remove_image(&image).await?;
            Answer::Ok
        }
        Question::Down => down(ending, writer).await?,
    })
}

async fn import_image(
    operator: &Operator,
    import: ImportImage,
    writer: &mut OwnedWriteHalf,
) -> anyhow::Result<String> {
    send(
        writer,
        &Line::Progress {
            what: format!("storing {}", import.name),
        },
    )
    .await?;
    operator.import_image(import).await
}

async fn down(ending: mpsc::Sender<Ending>, writer: &mut OwnedWriteHalf) -> anyhow::Result<Answer> {
    let (progress, mut lines) = mpsc::channel(PROGRESS_PENDING_MAX);
    let (done, outcome) = oneshot::channel();
    ending
        .try_send(Ending { progress, done })
        .context("the cloud is ending already")?;
    while let Some(what) = lines.recv().await {
        send(writer, &Line::Progress { what }).await?;
    }
    match outcome.await.context("the cloud ended without a word")? {
        None => Ok(Answer::Ok),
        Some(message) => anyhow::bail!(message),
    }
}

async fn send(writer: &mut OwnedWriteHalf, line: &Line) -> anyhow::Result<()> {
    let mut bytes = serde_json::to_vec(line)?;
    bytes.push(b'\n');
    writer.write_all(&bytes).await?;
    Ok(())
}

/// Column names for a table.
pub(crate) fn table<const N: usize>(columns: [&str; N], rows: Vec<[String; N]>) -> Table {
    Table {
        columns: columns.iter().map(|c| (*c).to_owned()).collect(),
        rows: rows.into_iter().map(Vec::from).collect(),
    }
}
