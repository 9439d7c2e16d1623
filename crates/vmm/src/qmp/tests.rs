//! The client against a hand-made monitor that answers late, wrongly, or not at all.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{UnixListener, UnixStream};

use super::Qmp;
use crate::error::QmpError;
use crate::event::{GuestEvent, Pending};

const GREETING: &str = r#"{"QMP": {"version": {}, "capabilities": ["oob"]}}"#;

struct Monitor {
    stream: BufReader<UnixStream>,
}

impl Monitor {
    async fn accept(listener: &UnixListener) -> Self {
        let (stream, _) = listener.accept().await.unwrap();
        let mut monitor = Self {
            stream: BufReader::new(stream),
        };
        monitor.say(GREETING).await;
        let hello = monitor.hear().await;
        assert_eq!(hello["execute"], "qmp_capabilities");
        monitor
            .say(&json!({"return": {}, "id": hello["id"]}).to_string())
            .await;
        monitor
    }

    async fn say(&mut self, line: &str) {
        self.stream
            .write_all(format!("{line}\r\n").as_bytes())
            .await
            .unwrap();
    }

    async fn hear(&mut self) -> Value {
        let mut line = String::new();
        self.stream.read_line(&mut line).await.unwrap();
        serde_json::from_str(&line).unwrap()
    }
}

async fn connected() -> (tempfile::TempDir, UnixListener, Monitor, Qmp, Arc<Pending>) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("qmp");
    let listener = UnixListener::bind(&path).unwrap();
    let events = Arc::new(Pending::default());
    let (monitor, client) = tokio::join!(
        Monitor::accept(&listener),
        Qmp::connect(&path, Arc::clone(&events))
    );
    let (client, pid) = client.unwrap();
    assert_eq!(pid, i32::try_from(std::process::id()).ok());
    (dir, listener, monitor, client, events)
}

#[tokio::test]
async fn events_and_answers_interleave() {
    let (_dir, _listener, mut monitor, client, events) = connected().await;
    let scripted = async {
        let command = monitor.hear().await;
        monitor
            .say(r#"{"event": "SHUTDOWN", "data": {"guest": true}, "timestamp": {}}"#)
            .await;
        monitor
            .say(&json!({"return": {"status": "shutdown"}, "id": command["id"]}).to_string())
            .await;
        let command = monitor.hear().await;
        assert_eq!(command["arguments"]["id"], "x");
        let error = json!({"error": {"class": "GenericError", "desc": "no"}, "id": command["id"]});
        monitor.say(&error.to_string()).await;
    };
    let asking = async {
        let status = client.execute("query-status", Value::Null).await.unwrap();
        assert_eq!(status["status"], "shutdown");
        assert_eq!(events.next().await, GuestEvent::PoweredOff);
        let error = client
            .execute("device_del", json!({"id": "x"}))
            .await
            .unwrap_err();
        assert!(error.is_refusal(), "{error}");
    };
    tokio::join!(scripted, asking);
}

#[tokio::test]
async fn a_lost_stream_is_an_unknown_outcome_and_is_replaced() {
    let (_dir, listener, mut monitor, client, events) = connected().await;
    let scripted = async {
        monitor.hear().await;
        drop(monitor);
        let mut again = Monitor::accept(&listener).await;
        let command = again.hear().await;
        assert_eq!(
            command["execute"], "query-status",
            "the lost command is not sent again"
        );
        again
            .say(&json!({"return": {"status": "running"}, "id": command["id"]}).to_string())
            .await;
        again
    };
    let asking = async {
        let error = client.execute("system_reset", Value::Null).await.unwrap_err();
        assert!(
            matches!(error, QmpError::Stream(_)) && !error.is_refusal(),
            "{error}"
        );
        assert_eq!(events.next().await, GuestEvent::MonitorBack);
        client.execute("query-status", Value::Null).await.unwrap();
    };
    tokio::join!(scripted, asking);
}

#[tokio::test]
async fn garbage_costs_the_stream() {
    for garbage in ["no json", "{}", r#"{"return": {}, "id": 99}"#, r#"{"id": 2}"#] {
        let (_dir, listener, mut monitor, client, events) = connected().await;
        let scripted = async {
            monitor.hear().await;
            monitor.say(garbage).await;
            Monitor::accept(&listener).await
        };
        let asking = async {
            let error = client.execute("cont", Value::Null).await.unwrap_err();
            assert!(matches!(error, QmpError::Protocol(_)), "{garbage}: {error}");
            assert_eq!(events.next().await, GuestEvent::MonitorBack);
        };
        tokio::join!(scripted, asking);
    }
}

#[tokio::test(start_paused = true)]
async fn a_silent_monitor_costs_the_command_and_the_stream() {
    let (_dir, listener, mut monitor, client, events) = connected().await;
    let scripted = async {
        monitor.hear().await;
        Monitor::accept(&listener).await
    };
    let asking = async {
        let error = client.execute("cont", Value::Null).await.unwrap_err();
        assert!(matches!(error, QmpError::Timeout { what: "cont", .. }), "{error}");
        assert_eq!(events.next().await, GuestEvent::MonitorBack);
    };
    tokio::time::timeout(Duration::from_secs(120), async { tokio::join!(scripted, asking) })
        .await
        .unwrap();
}

#[tokio::test]
async fn a_dropped_client_closes_its_stream() {
    let (_dir, _listener, mut monitor, client, _events) = connected().await;
    drop(client);
    let mut line = String::new();
    assert_eq!(monitor.stream.read_line(&mut line).await.unwrap(), 0);
}

#[tokio::test]
async fn an_absent_monitor_is_told_apart() {
    let dir = tempfile::tempdir().unwrap();
    let error = Qmp::connect(&dir.path().join("none"), Arc::default())
        .await
        .unwrap_err();
    assert!(matches!(error, QmpError::Connect { .. }), "{error}");
}
