//! `spx status` and `spx get`: asks the running cloud and prints.

use crate::admin::client::ask;
use crate::admin::{Answer, Question};
use crate::cli::{Get, Listed, Output, Show};
use crate::layout::DataDir;
use crate::output::print_table;
use anyhow::bail;

/// `spx status`.
///
/// # Errors
/// No cloud runs, or it could not answer.
pub async fn status(show: &Show) -> anyhow::Result<()> {
    let dir = DataDir::new(&show.dir.data)?;
    let Answer::Status(status) = ask(&dir, &Question::Status, |_| {}).await? else {
        bail!("the cloud answered something else than its status");
    };
    if show.output == Output::Json {
        println!("{}", serde_json::to_string_pretty(&status)?);
        return Ok(());
    }
    println!("version      {}", status.version);
    println!("endpoint     {}", status.endpoint);
    println!("process      {}", status.pid);
    println!("store        {}: {}", status.engine, status.store);
    println!("accelerator  {}", status.accelerator);
    let instances: Vec<String> = status
        .instances
        .iter()
        .map(|(state, n)| format!("{n} {state}"))
        .collect();
    println!(
        "instances    {}",
        if instances.is_empty() {
            "none".to_owned()
        } else {
            instances.join(", ")
        }
    );
    Ok(())
}

/// `spx get`.
///
/// # Errors
/// No cloud runs, or it could not answer.
pub async fn get(get: &Get) -> anyhow::Result<()> {
    let dir = DataDir::new(&get.show.dir.data)?;
    let question = match get.what {
        Listed::Nodes => Question::Nodes,
        Listed::Instances => Question::Instances,
        Listed::Reconcilers => Question::Reconcilers,
        Listed::Images => Question::Images,
    };
    print_table(ask(&dir, &question, |_| {}).await?, get.show.output)
}
