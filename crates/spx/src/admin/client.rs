//! Asks a running cloud.

use super::{Answer, Line, Question};
use crate::layout::DataDir;
use anyhow::{Context, bail};
use std::io::ErrorKind;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::UnixStream;

/// True if a cloud runs on this directory and can be asked.
pub async fn is_running(dir: &DataDir) -> bool {
    UnixStream::connect(dir.admin_socket()).await.is_ok()
}

/// Asks, showing progress with `progress`, and returns the answer.
///
/// # Errors
/// No cloud runs on the directory, it went away, or it says that it failed.
pub async fn ask(
    dir: &DataDir,
    question: &Question,
    mut progress: impl FnMut(&str),
) -> anyhow::Result<Answer> {
    let socket = dir.admin_socket();
    let stream = match UnixStream::connect(&socket).await {
        Ok(stream) => stream,
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::ConnectionRefused) => {
            let dir = dir.root().display();
            bail!("no cloud runs on {dir}; start it with: spx up --data {dir}")
        }
        Err(error) => return Err(error).with_context(|| format!("connecting to {}", socket.display())),
    };
    let (reader, mut writer) = stream.into_split();
    let mut line = serde_json::to_vec(question)?;
    line.push(b'\n');
    writer.write_all(&line).await.context("asking the cloud")?;
    let mut lines = BufReader::new(reader).lines();
    while let Some(line) = lines.next_line().await.context("reading the cloud's answer")? {
        match serde_json::from_str(&line).context("the cloud's answer is not understood")? {
            Line::Progress { what } => progress(&what),
            Line::Done { answer } => return Ok(answer),
            Line::Failed { message } => bail!(message),
        }
    }
    bail!("the cloud ended before it answered; its log says why")
}
