//! Makes Rust names of the model's: `InstanceId` → `instance_id`, `IPAddress` → `ip_address`, `t3.micro` → `T3_MICRO`.

use std::collections::BTreeSet;

/// Type names that generated code uses itself.
const TAKEN: &[&str] = &[
    "Box",
    "BTreeMap",
    "Bytes",
    "Default",
    "OffsetDateTime",
    "Option",
    "Shape",
    "String",
    "Value",
    "Vec",
];

/// A field or module name.
pub fn snake(name: &str) -> String {
    let letters: Vec<char> = name.chars().collect();
    let mut out = String::with_capacity(name.len() + 8);
    for (index, &letter) in letters.iter().enumerate() {
        if !letter.is_ascii_alphanumeric() {
            out.push('_');
            continue;
        }
        let before = index.checked_sub(1).map(|i| letters[i]);
        let after = letters.get(index + 1);
        let starts_word = letter.is_ascii_uppercase()
            && before.is_some_and(|b| {
                b.is_ascii_lowercase()
                    || b.is_ascii_digit()
                    || (b.is_ascii_uppercase() && after.is_some_and(char::is_ascii_lowercase))
            });
        if starts_word {
            out.push('_');
        }
        out.push(letter.to_ascii_lowercase());
    }
    out
}

/// A field name that is no keyword.
pub fn field(name: &str) -> String {
    let snake = snake(name);
    match snake.as_str() {
        "self" | "super" | "crate" => format!("{snake}_"),
        "as" | "async" | "await" | "box" | "break" | "const" | "continue" | "do" | "dyn" | "else"
        | "enum" | "extern" | "false" | "final" | "fn" | "for" | "gen" | "if" | "impl" | "in" | "let"
        | "loop" | "macro" | "match" | "mod" | "move" | "mut" | "override" | "priv" | "pub" | "ref"
        | "return" | "static" | "struct" | "trait" | "true" | "try" | "type" | "typeof" | "unsafe"
        | "unsized" | "use" | "virtual" | "where" | "while" | "yield" | "abstract" | "become" => {
            format!("r#{snake}")
        }
        _ => snake,
    }
}

/// A struct name.
pub fn structure(name: &str) -> String {
    let mut letters = name.chars();
    let first = letters.next().unwrap_or('_').to_ascii_uppercase();
    let name: String = std::iter::once(first).chain(letters).collect();
    if TAKEN.contains(&name.as_str()) {
        format!("{name}Shape")
    } else {
        name
    }
}

/// A static's name.
pub fn upper(name: &str) -> String {
    snake(name).to_ascii_uppercase()
}

/// Constant names for the values of an enumeration, all different.
pub fn constants(values: &[&str]) -> Vec<String> {
    let mut taken = BTreeSet::new();
    let mut name = |value: &str| {
        let mut name = String::new();
        for letter in snake(value).chars() {
            if letter != '_' || !name.ends_with('_') {
                name.push(letter.to_ascii_uppercase());
            }
        }
        if name.is_empty() || !name.starts_with(|c: char| c.is_ascii_alphabetic()) {
            name.insert_str(0, "V_");
        }
        while name == "VALUES" || !taken.insert(name.clone()) {
            name.push('_');
        }
        name
    };
    values.iter().map(|value| name(value)).collect()
}
