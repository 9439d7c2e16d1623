//! Glob patterns of AWS filters: `*` any run, `?` one character, backslash makes the next character literal.
//!
//! Source: EC2 user guide, "List and filter your resources". Matching is on whole values, with case, and linear in
//! practice: one backtrack point, no recursion.

/// One compiled pattern.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pattern {
    parts: Vec<Part>,
    literal: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    Char(char),
    One,
    Run,
}

impl Pattern {
    /// Compiles a filter value.
    pub fn new(text: &str) -> Pattern {
        let mut parts = Vec::with_capacity(text.len());
        let mut chars = text.chars();
        while let Some(c) = chars.next() {
            parts.push(match c {
                '*' => Part::Run,
                '?' => Part::One,
                '\\' => Part::Char(chars.next().unwrap_or('\\')),
                other => Part::Char(other),
            });
        }
        let literal = parts
            .iter()
            .map(|p| if let Part::Char(c) = p { Some(*c) } else { None })
            .collect::<Option<String>>();
        Pattern { parts, literal }
    }

    /// The only text this pattern matches, if it has no wildcard: lets callers look up instead of scan.
    pub fn literal(&self) -> Option<&str> {
        self.literal.as_deref()
    }

    /// True if the whole of `text` matches.
    pub fn matches(&self, text: &str) -> bool {
        if let Some(literal) = &self.literal {
            return literal == text;
        }
        let text: Vec<char> = text.chars().collect();
        let (mut t, mut p) = (0, 0);
        let mut resume: Option<(usize, usize)> = None;
        while t < text.len() {
            match self.parts.get(p) {
                Some(Part::Run) => {
                    resume = Some((p + 1, t));
                    p += 1;
                }
                Some(Part::One) => (t, p) = (t + 1, p + 1),
                Some(Part::Char(c)) if *c == text[t] => (t, p) = (t + 1, p + 1),
                _ => match resume {
                    Some((after_run, from)) => {
                        resume = Some((after_run, from + 1));
                        (t, p) = (from + 1, after_run);
                    }
                    None => return false,
                },
            }
        }
        self.parts[p..].iter().all(|part| *part == Part::Run)
    }
}

#[cfg(test)]
mod tests {
    use super::Pattern;

    #[test]
    fn matches_as_aws_documents() {
        for (pattern, text, expected) in [
            ("abc", "abc", true),
            ("abc", "ABC", false),
            ("a*", "abc", true),
            ("*c", "abc", true),
            ("a?c", "abc", true),
            ("a?c", "ac", false),
            ("*", "", true),
            ("?", "", false),
            ("a*b*c", "axxbyyc", true),
            ("a*b*c", "axxbyy", false),
            (r"\*amazon\?\\", r"*amazon?\", true),
            (r"\*", "x", false),
            ("*aab", "aaaab", true),
        ] {
            assert_eq!(Pattern::new(pattern).matches(text), expected, "{pattern} {text}");
        }
    }
}
