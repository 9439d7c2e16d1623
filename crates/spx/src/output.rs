//! Lists and progress on a terminal.

use crate::admin::{Answer, Table};
use crate::cli::Output;
use anyhow::bail;
use indicatif::{ProgressBar, ProgressStyle};
use std::fmt::Write;

/// Prints a list; json is one object a row, keyed by lower-case column names.
///
/// # Errors
/// The answer is not a list.
pub fn print_table(answer: Answer, output: Output) -> anyhow::Result<()> {
    let Answer::Table(table) = answer else {
        bail!("the cloud answered something else than a list")
    };
    match output {
        Output::Table => print!("{}", render(&table)),
        Output::Json => println!("{}", serde_json::to_string_pretty(&rows(&table))?),
    }
    Ok(())
}

fn rows(table: &Table) -> Vec<serde_json::Map<String, serde_json::Value>> {
    let object = |row: &Vec<String>| {
        let cells = table.columns.iter().zip(row);
        cells
            .map(|(column, cell)| (column.to_lowercase(), cell.as_str().into()))
            .collect()
    };
    table.rows.iter().map(object).collect()
}

fn render(table: &Table) -> String {
    let mut widths: Vec<usize> = table.columns.iter().map(|c| c.chars().count()).collect();
    for row in &table.rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let mut text = String::new();
    for row in std::iter::once(&table.columns).chain(&table.rows) {
        let mut line = String::new();
        for (cell, width) in row.iter().zip(&widths) {
            let _ = write!(line, "{cell:<width$}  ");
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

/// A bar for long work, or plain lines where nobody watches a terminal.
pub fn progress_bar(hidden: bool) -> ProgressBar {
    if hidden {
        return ProgressBar::hidden();
    }
    let bar = ProgressBar::new(0);
    let style = ProgressStyle::with_template("{elapsed_precise} {wide_msg} {bar:30} {percent:>3}%");
    bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
    bar.enable_steady_tick(std::time::Duration::from_millis(200));
    bar
}

#[cfg(test)]
mod tests {
    use super::{render, rows};
    use crate::admin::Table;

    #[test]
    fn columns_line_up() {
        let table = Table {
            columns: vec!["NAME".into(), "STATUS".into()],
            rows: vec![
                vec!["a-long-name".into(), "Ready".into()],
                vec!["b".into(), "NotReady".into()],
            ],
        };
        assert_eq!(
            render(&table),
            "NAME         STATUS\na-long-name  Ready\nb            NotReady\n"
        );
        assert_eq!(rows(&table)[1]["status"], "NotReady");
    }
}
