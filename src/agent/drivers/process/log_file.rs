//! Log files of processes: written by the processes themselves, bounded by copying and truncating.
//!
//! The files are opened for appending, so that after a truncation the writer continues at the start.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Read, Seek, SeekFrom},
    path::{Path, PathBuf},
};

use crate::drivers::{LONGEST_LINE, lines_of};

/// Returns the log file of a process, `<directory>/logs/<key>-<name>.log`.
pub(crate) fn path(directory: &Path, key: &str, name: &str) -> PathBuf {
    directory.join("logs").join(format!("{key}-{name}.log"))
}

/// Opens a log for a process to write to.
pub(crate) fn open(path: &Path) -> io::Result<File> {
    if let Some(directory) = path.parent() {
        fs::create_dir_all(directory)?;
    }
    OpenOptions::new().create(true).append(true).open(path)
}

/// Moves the content of a log of more than `limit` bytes to `<path>.1` and truncates it. Output written between copy and
/// truncation is lost, because the writer is never stopped.
pub(crate) fn rotate(path: &Path, limit: u64) -> io::Result<bool> {
    if fs::metadata(path)?.len() <= limit {
        return Ok(false);
    }
    let mut older = path.as_os_str().to_owned();
    older.push(".1");
    fs::copy(path, PathBuf::from(older))?;
    OpenOptions::new().write(true).open(path)?.set_len(0)?;
    Ok(true)
}

/// Returns the last lines of a log, at most `count`; none when there is no log.
pub(crate) fn last_lines(path: &Path, count: usize) -> io::Result<Vec<String>> {
    let mut file = match File::open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        other => other?,
    };
    let length = file.metadata()?.len();
    let wanted = (count * LONGEST_LINE) as u64;
    file.seek(SeekFrom::Start(length.saturating_sub(wanted)))?;
    let mut text = Vec::new();
    file.take(wanted).read_to_end(&mut text)?;
    Ok(lines_of(&String::from_utf8_lossy(&text), count))
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn log_is_cut_while_its_writer_goes_on() {
        let directory = tempfile::tempdir().unwrap();
        let path = path(directory.path(), "k", "n");
        let mut writer = open(&path).unwrap();
        writer.write_all(&[b'a'; 100]).unwrap();
        assert!(!rotate(&path, 100).unwrap());
        assert!(rotate(&path, 99).unwrap());
        writer.write_all(b"later").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"later");
        assert_eq!(fs::read(path.with_extension("log.1")).unwrap(), [b'a'; 100]);
    }

    #[test]
    fn last_lines_of_a_log_are_bounded() {
        let directory = tempfile::tempdir().unwrap();
        let path = path(directory.path(), "k", "n");
        assert_eq!(last_lines(&path, 3).unwrap(), Vec::<String>::new());
        let long = "x".repeat(2 * LONGEST_LINE);
        open(&path).unwrap().write_all(format!("one\n\n{long}\ntwo\nthr\u{1b}ee").as_bytes()).unwrap();
        let lines = last_lines(&path, 2).unwrap();
        assert_eq!(lines, ["two", "thr ee"]);
        assert_eq!(last_lines(&path, 3).unwrap()[0].chars().count(), LONGEST_LINE);
        assert!(last_lines(&path, 0).unwrap().is_empty());
    }
}
