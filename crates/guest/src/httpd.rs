//! A small web server for static files: `guest httpd --port 80 --dir /srv`, for user data scripts that want to
//! show that they ran. GET and HEAD; a directory is its `index.html`; nothing outside the directory is served.
//! One thread a connection, a bounded number of them, one request each.

use std::fs::{self, File};
use std::io::{self, Read as _, Write as _};
use std::net::{Ipv6Addr, TcpListener, TcpStream};
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use crate::error::{GuestError, file, kernel};
use crate::limits::{HTTP_CONNECTIONS_MAX, HTTP_HEAD_BYTES_MAX, HTTP_IDLE_MAX};

/// Serves `dir` until the process is ended.
pub fn serve(port: u16, dir: &Path) -> Result<(), GuestError> {
    let root = fs::canonicalize(dir).map_err(file("resolving", dir))?;
    // The unspecified IPv6 address listens for IPv4 too, unless the kernel has no IPv6.
    let listener = TcpListener::bind((Ipv6Addr::UNSPECIFIED, port))
        .or_else(|_| TcpListener::bind(("0.0.0.0", port)))
        .map_err(kernel("listening for web clients"))?;
    let busy = Arc::new(AtomicUsize::new(0));
    for stream in listener.incoming() {
        let Ok(stream) = stream else { continue };
        if busy.fetch_add(1, Ordering::AcqRel) >= HTTP_CONNECTIONS_MAX {
            busy.fetch_sub(1, Ordering::AcqRel);
            continue;
        }
        let (root, busy) = (root.clone(), Arc::clone(&busy));
        thread::spawn(move || {
            // The client is gone; there is nobody to tell.
            let _client_gone = answer(stream, &root);
            busy.fetch_sub(1, Ordering::AcqRel);
        });
    }
    Ok(())
}

fn answer(mut stream: TcpStream, root: &Path) -> io::Result<()> {
    stream.set_read_timeout(Some(HTTP_IDLE_MAX))?;
    stream.set_write_timeout(Some(HTTP_IDLE_MAX))?;
    let mut head = Vec::new();
    let mut chunk = [0; 1024];
    while !head.windows(4).any(|window| window == b"\r\n\r\n") {
        let read = stream.read(&mut chunk)?;
        if read == 0 || head.len() > HTTP_HEAD_BYTES_MAX {
            return respond(&mut stream, "400 Bad Request", "text/plain", 0);
        }
        head.extend_from_slice(&chunk[..read]);
    }
    let (method, target) = match parse_request(&head) {
        Some(request) => request,
        None => return respond(&mut stream, "400 Bad Request", "text/plain", 0),
    };
    if method != "GET" && method != "HEAD" {
        return respond(&mut stream, "405 Method Not Allowed", "text/plain", 0);
    }
    let Some((mut found, kind)) = find(root, &target) else {
        return respond(&mut stream, "404 Not Found", "text/plain", 0);
    };
    respond(&mut stream, "200 OK", kind, found.metadata()?.len())?;
    if method == "GET" {
        io::copy(&mut found, &mut stream)?;
    }
    Ok(())
}

fn respond(stream: &mut TcpStream, status: &str, kind: &str, length: u64) -> io::Result<()> {
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n"
    );
    stream.write_all(head.as_bytes())
}

/// Method and decoded path of a request.
fn parse_request(head: &[u8]) -> Option<(String, String)> {
    let line = head.split(|&byte| byte == b'\r').next()?;
    let mut words = std::str::from_utf8(line).ok()?.split(' ');
    let (method, target, version) = (words.next()?, words.next()?, words.next()?);
    if !version.starts_with("HTTP/1.") || !target.starts_with('/') {
        return None;
    }
    let path = target.split(['?', '#']).next()?;
    Some((method.to_owned(), decode(path)?))
}

fn decode(path: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(path.len());
    let mut rest = path.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let digits = [rest.next()?, rest.next()?];
        bytes.push(u8::from_str_radix(std::str::from_utf8(&digits).ok()?, 16).ok()?);
    }
    String::from_utf8(bytes).ok().filter(|path| !path.contains('\0'))
}

/// The file that `path` names below `root`, with its type. Links that lead outside are not followed.
fn find(root: &Path, path: &str) -> Option<(File, &'static str)> {
    let mut wanted = root.to_owned();
    for component in Path::new(path.trim_start_matches('/')).components() {
        match component {
            Component::Normal(name) => wanted.push(name),
            Component::CurDir => {}
            _ => return None,
        }
    }
    let mut wanted: PathBuf = fs::canonicalize(wanted).ok()?;
    if wanted.is_dir() {
        wanted = fs::canonicalize(wanted.join("index.html")).ok()?;
    }
    if !wanted.starts_with(root) || !wanted.is_file() {
        return None;
    }
    let kind = match wanted.extension().and_then(|extension| extension.to_str()) {
        Some("html" | "htm") => "text/html; charset=utf-8",
        Some("txt" | "log") => "text/plain; charset=utf-8",
        Some("json") => "application/json",
        Some("css") => "text/css",
        Some("js") => "text/javascript",
        Some("svg") => "image/svg+xml",
        Some("png") => "image/png",
        Some("jpg" | "jpeg") => "image/jpeg",
        _ => "application/octet-stream",
    };
    Some((File::open(wanted).ok()?, kind))
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::net::{TcpListener, TcpStream};

    use super::{answer, find, parse_request};

    #[test]
    fn requests() {
        let parsed = parse_request(b"GET /a%20b?x=1 HTTP/1.1\r\nHost: x\r\n\r\n");
        assert_eq!(parsed, Some(("GET".into(), "/a b".into())));
        for bad in [
            "GET\r\n",
            "GET / \r\n",
            "GET x HTTP/1.1\r\n",
            "GET /%zz HTTP/1.1\r\n",
            "GET /%00 HTTP/1.1\r\n",
        ] {
            assert_eq!(parse_request(bad.as_bytes()), None, "{bad}");
        }
    }

    #[test]
    fn nothing_outside_is_served() {
        let dir = tempfile::tempdir().unwrap();
        let root = std::fs::canonicalize(dir.path()).unwrap().join("srv");
        std::fs::create_dir_all(root.join("sub")).unwrap();
        std::fs::write(root.join("index.html"), "hello").unwrap();
        std::fs::write(root.join("../secret"), "x").unwrap();
        std::os::unix::fs::symlink("../secret", root.join("link")).unwrap();
        assert!(find(&root, "/").is_some());
        assert!(find(&root, "//index.html").is_some());
        for path in ["/../secret", "/link", "/sub", "/absent", "/sub/../../secret"] {
            assert!(find(&root, path).is_none(), "{path}");
        }
    }

    #[test]
    fn a_page_arrives_whole() {
        let dir = tempfile::tempdir().unwrap();
        let root = std::fs::canonicalize(dir.path()).unwrap();
        let page = "x".repeat(100_000);
        std::fs::write(root.join("page.txt"), &page).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let server = std::thread::spawn(move || {
            for _ in 0..3 {
                answer(listener.accept().unwrap().0, &root).unwrap();
            }
        });
        let ask = |request: &str| {
            let mut stream = TcpStream::connect(address).unwrap();
            stream.write_all(request.as_bytes()).unwrap();
            let mut text = String::new();
            stream.read_to_string(&mut text).unwrap();
            text
        };
        assert!(ask("GET /page.txt HTTP/1.1\r\n\r\n").ends_with(&format!("\r\n\r\n{page}")));
        let head = ask("HEAD /page.txt HTTP/1.1\r\n\r\n");
        assert!(
            head.contains("Content-Length: 100000") && head.ends_with("\r\n\r\n"),
            "{head}"
        );
        assert!(ask("POST / HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 405"));
        server.join().unwrap();
    }
}
