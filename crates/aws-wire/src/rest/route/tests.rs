//! Routes against literal templates.

use aws_shapes::schema::Route;
use http::Request;

use super::{Fit, Step, fit, walk};

fn fits(
    method: &'static str,
    uri: &'static str,
    needs: &'static [&'static str],
    request: &str,
) -> Option<Fit> {
    let (request_method, target) = request.split_once(' ').expect("a method and a target");
    let request = Request::builder()
        .method(request_method)
        .uri(target)
        .body(())
        .expect("a request");
    fit(&Route { method, uri, needs }, &request.into_parts().0)
}

#[test]
fn templates_take_paths() {
    for (template, path, labels) in [
        ("/", "/", Some(vec![])),
        ("/{Bucket}", "/b", Some(vec!["b"])),
        ("/{Bucket}", "/b/", Some(vec!["b"])),
        ("/{Bucket}", "/", None),
        ("/{Bucket}", "/b/k", None),
        ("/{Bucket}/{Key+}", "/b/k/l//m", Some(vec!["b", "k/l//m"])),
        ("/{Bucket}/{Key+}", "/b/", None),
        ("/{Bucket}/{Key+}", "/b//k", Some(vec!["b", "/k"])),
        ("/a/{X+}/b", "/a/1/2/b", Some(vec!["1/2"])),
        ("/a/{X+}/b", "/a/1/2/c", None),
        ("/2015-03-31/functions/", "/2015-03-31/functions", Some(vec![])),
        ("/2015-03-31/functions", "/2015-03-31/functions/", Some(vec![])),
    ] {
        let mut found = Vec::new();
        let walked = walk(template, path, &mut |step, given| {
            if !matches!(step, Step::Fixed) {
                found.push(given);
            }
        });
        assert_eq!(walked.map(|()| found), labels, "{template} {path}");
    }
}

#[test]
fn the_query_string_and_needs_decide_between_equal_paths() {
    let plain = fits("GET", "/{Bucket}", &[], "GET /b?list-type=2");
    let listed = fits("GET", "/{Bucket}?list-type=2", &[], "GET /b?list-type=2");
    assert!(listed > plain);
    assert_eq!(fits("GET", "/{Bucket}?list-type=2", &[], "GET /b"), None);
    assert_eq!(fits("GET", "/{Bucket}?tagging", &[], "GET /b?taggings"), None);
    assert!(fits("GET", "/{Bucket}?tagging", &[], "GET /b?tagging=").is_some());
    let upload = &["?partNumber", "?uploadId"];
    assert_eq!(fits("PUT", "/{Bucket}/{Key+}", upload, "PUT /b/k"), None);
    assert!(
        fits(
            "PUT",
            "/{Bucket}/{Key+}",
            upload,
            "PUT /b/k?partNumber=1&uploadId=2"
        )
        .is_some()
    );
    assert_eq!(fits("PUT", "/{Bucket}", &[], "GET /b"), None);
    let escaped = fits("GET", "/a-b/{X}", &[], "GET /a%2Db/1");
    assert!(escaped.is_some());
}
