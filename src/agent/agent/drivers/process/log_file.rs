//! Log files of processes: written by the processes themselves, bounded by copying and truncating.
//!
//! The files are opened for appending, so that after a truncation the writer continues at the start.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Read, Seek, SeekFrom},
    path::{Path, PathBuf},
};

use crate::drivers;
use crate::drivers::{LARGEST_LOG_PART, LONGEST_LINE, LogPart, lines_of};

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
    let wanted = (count * LONGEST_LINE).min(LARGEST_LOG_PART) as u64;
    let part = read_from(path, |length| length.saturating_sub(wanted))?;
    Ok(lines_of(&part.text, count))
}

/// Reads the last lines of a log, and returns where the next part begins.
pub(crate) fn read_last(path: &Path, lines: usize) -> io::Result<LogPart> {
    let part = read_from(path, |length| length.saturating_sub(LARGEST_LOG_PART as u64))?;
    Ok(LogPart { text: drivers::last_lines(&part.text, lines).to_owned(), ..part })
}

/// Reads what was written since a position. A log that is shorter was truncated meanwhile, and is read from its start.
pub(crate) fn read_after(path: &Path, position: u64) -> io::Result<LogPart> {
    read_from(path, |length| if position > length { 0 } else { position })
}

fn read_from(path: &Path, start: impl FnOnce(u64) -> u64) -> io::Result<LogPart> {
    let mut file = match File::open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Ok(LogPart { text: String::new(), position: "0".to_owned() });
        }
        other => other?,
    };
    let start = start(file.metadata()?.len());
    file.seek(SeekFrom::Start(start))?;
    let mut bytes = Vec::new();
    file.take(LARGEST_LOG_PART as u64).read_to_end(&mut bytes)?;
    // An incomplete UTF-8 sequence at the end belongs to the next part.
    if let Err(error) = std::str::from_utf8(&bytes)
        && error.error_len().is_none()
    {
        bytes.truncate(error.valid_up_to());
    }
    let position = start + bytes.len() as u64;
    Ok(LogPart { text: String::from_utf8_lossy(&bytes).into_owned(), position: position.to_string() })
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
    fn log_is_read_in_parts_that_lose_nothing() {
        let directory = tempfile::tempdir().unwrap();
        let path = path(directory.path(), "k", "n");
        assert_eq!(read_last(&path, 9).unwrap(), LogPart { text: String::new(), position: "0".to_owned() });
        let mut writer = open(&path).unwrap();
        writer.write_all("one\ntwo\nthree\n".as_bytes()).unwrap();
        let part = read_last(&path, 2).unwrap();
        assert_eq!((part.text.as_str(), part.position.as_str()), ("two\nthree\n", "14"));
        writer.write_all(b"f\xc3").unwrap();
        let part = read_after(&path, 14).unwrap();
        assert_eq!((part.text.as_str(), part.position.as_str()), ("f", "15"), "half a letter waits");
        writer.write_all(b"\xbcr").unwrap();
        assert_eq!(read_after(&path, 15).unwrap().text, "\u{fc}r");
        assert!(rotate(&path, 3).unwrap());
        writer.write_all(b"new").unwrap();
        assert_eq!(read_after(&path, 18).unwrap().text, "new", "a truncated log begins again");
        assert_eq!(read_last(&path, 0).unwrap().text, "");
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
