//! The tree on a terminal, refreshed in place, with keys.

use std::io;
use std::pin::Pin;
use std::time::Duration;

use evenkeel_client::HealthSubject;
use evenkeel_domain::text::printable;
use evenkeel_wire::agbot::health::HealthQuery;
use jiff::Timestamp;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use ratatui::layout::{Constraint, Layout};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::Line as Text;
use ratatui::widgets::{Block, Clear, Paragraph, Row, Table, TableState, Wrap};
use ratatui::{DefaultTerminal, Frame};
use tokio::sync::mpsc;

use super::bar;
use super::columns::{self, cut};
use super::fleet::{self, Overview};
use super::lines::{self, HEADER, Line, Target, Tone};
use super::signal::Signals;
use crate::context::{Context, Exchange};
use crate::exchange::health;
use crate::exchange::orch::explain;
use crate::exit::{CliError, Exit, Outcome};
use crate::output::View;

/// Characters that draw the tree; no name begins with them.
const BRANCHES: [char; 5] = ['├', '└', '│', ' ', '\u{a0}'];
/// Interval at which the thread that reads the keyboard checks whether it is still needed.
const KEYBOARD: Duration = Duration::from_millis(200);

/// Shows the tree until the user leaves it.
///
/// # Errors
/// With status 5 when exchange or agbot do not respond to the first request, 4 when the terminal cannot be used. A signal ends the
/// process with the status of that signal.
pub async fn run(context: &Context, exchange: &Exchange, every_secs: u64) -> Outcome {
    // Errors of credentials and addresses are shown before the screen is cleared.
    let overview = fleet::read(context, exchange).await?;
    let mut signals = Signals::listen().map_err(|error| broken(&error))?;
    let mut terminal = ratatui::try_init().map_err(|error| broken(&error))?;
    let shown = tokio::select! {
        shown = show(context, exchange, every_secs, overview, &mut terminal) => Ok(shown),
        status = signals.next() => Err(status),
    };
    // It shows the cursor again.
    drop(terminal);
    ratatui::restore();
    shown.unwrap_or_else(|status| std::process::exit(status))
}

fn broken(error: &io::Error) -> CliError {
    CliError::new(
        Exit::File,
        "the terminal cannot be used",
        error.to_string(),
        "show the tree as text with: hzn mon --once",
    )
}

async fn show(
    context: &Context,
    exchange: &Exchange,
    every_secs: u64,
    overview: Overview,
    terminal: &mut DefaultTerminal,
) -> Outcome {
    let mut app = App::new(&overview, Timestamp::now());
    let mut keys = read_keys();
    let mut ticks = tokio::time::interval(Duration::from_secs(every_secs));
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    ticks.tick().await;
    let mut reading: Pending<'_, Outcome<Overview>> = None;
    let mut explaining: Pending<'_, Outcome<Vec<String>>> = None;
    loop {
        terminal.draw(|frame| app.draw(frame)).map_err(|error| broken(&error))?;
        tokio::select! {
            key = keys.recv() => match key.transpose().map_err(|error| broken(&error))?.map(|event| app.handle(event)) {
                None | Some(Request::Leave) => return Ok(()),
                Some(Request::Nothing) => {}
                Some(Request::Refresh) => { reading.get_or_insert_with(|| Box::pin(fleet::read(context, exchange))); }
                Some(Request::Explain(target)) => explaining = Some(Box::pin(explanation(context, exchange, target))),
            },
            _ = ticks.tick() => { reading.get_or_insert_with(|| Box::pin(fleet::read(context, exchange))); }
            found = ready(&mut reading) => app.refresh(found.map_err(|error| error.why), Timestamp::now()),
            found = ready(&mut explaining) => app.explain(found.unwrap_or_else(|error| vec![error.to_string()])),
        }
    }
}

type Pending<'a, T> = Option<Pin<Box<dyn Future<Output = T> + 'a>>>;

/// Waits for the future in progress and clears it when it has completed; without one it never returns.
async fn ready<T>(pending: &mut Pending<'_, T>) -> T {
    let Some(future) = pending else { return std::future::pending().await };
    let found = future.await;
    *pending = None;
    found
}

/// Reads the keyboard in a separate thread, because no other way to wait for input is portable.
fn read_keys() -> mpsc::Receiver<io::Result<Event>> {
    let (sender, receiver) = mpsc::channel(16);
    std::thread::spawn(move || {
        while !sender.is_closed() {
            let key = match event::poll(KEYBOARD) {
                Ok(false) => continue,
                Ok(true) => event::read(),
                Err(error) => Err(error),
            };
            let is_broken = key.is_err();
            if sender.blocking_send(key).is_err() || is_broken {
                return;
            }
        }
    });
    receiver
}

/// Explains the state of a line.
async fn explanation(context: &Context, exchange: &Exchange, target: Target) -> Outcome<Vec<String>> {
    let (policy, part, node) = match &target {
        Target::Group(group) => return group_text(context, exchange, group).await,
        Target::Member(node) | Target::Node(node) => {
            let subject = HealthSubject::Node { org: exchange.org.clone(), node: node.clone() };
            let view = health::read(context, exchange, &subject, &HealthQuery::default()).await?;
            return Ok(texts(&view));
        }
        Target::Policy(policy) => (policy, None, None),
        Target::Unit(policy, part) => (policy, Some(part.as_str()), None),
        Target::Instance(policy, node) => (policy, None, Some(node.as_str())),
    };
    let view = explain::read(context, exchange, policy, (part, node)).await?;
    Ok(texts(&view))
}

/// Returns the rows of a table without their columns.
fn texts(view: &View) -> Vec<String> {
    let joined = |row: &Vec<String>| row.iter().filter(|cell| !cell.is_empty()).cloned().collect::<Vec<_>>();
    view.table.rows.iter().map(|row| joined(row).join("  ")).collect()
}

async fn group_text(context: &Context, exchange: &Exchange, group: &str) -> Outcome<Vec<String>> {
    let agbot = context.agbot(exchange)?;
    let found = agbot.client.upgrades(&exchange.org, group).await;
    let found = found.map_err(|error| agbot.failed(&format!("reading the claims of {group}"), &error))?;
    let blocked = found.blocked.iter().flat_map(|blocked| &blocked.slots);
    let blocked = blocked.map(|slot| format!("{}: {}", slot.reason, slot.detail));
    let waiting =
        found.waiting.iter().map(|wait| format!("{} on {}: {}", wait.policy, wait.node, wait.reason));
    let lines: Vec<String> = blocked.chain(waiting).collect();
    Ok(if lines.is_empty() { vec!["nothing waits in this group".to_owned()] } else { lines })
}

/// An action of a key that involves more than the screen.
#[derive(Debug, PartialEq, Eq)]
enum Request {
    Nothing,
    Leave,
    Refresh,
    Explain(Target),
}

/// The state of the screen.
struct App {
    lines: Vec<Line>,
    /// Search text; lines without it are hidden.
    filter: String,
    is_filtering: bool,
    table: TableState,
    /// The title and the text of an explanation.
    explained: Option<(String, Vec<String>)>,
    /// Lines of it above those that are shown.
    scrolled: u16,
    read_at: Timestamp,
    /// Reason why the displayed state is out of date.
    error: Option<String>,
}

impl App {
    fn new(overview: &Overview, now: Timestamp) -> Self {
        let mut app = Self {
            lines: overview.lines(),
            filter: String::new(),
            is_filtering: false,
            table: TableState::default(),
            explained: None,
            scrolled: 0,
            read_at: now,
            error: None,
        };
        app.select(0);
        app
    }

    fn shown(&self) -> Vec<&Line> {
        lines::holding(&self.lines, &self.filter)
    }

    fn select(&mut self, position: usize) {
        let last = self.shown().len().checked_sub(1);
        self.table.select(last.map(|last| position.min(last)));
    }

    fn move_by(&mut self, by: isize) {
        let position = self.table.selected().unwrap_or_default();
        self.select(position.saturating_add_signed(by));
    }

    /// Applies the result of a read; the selected line stays selected.
    fn refresh(&mut self, found: Result<Overview, String>, now: Timestamp) {
        let selected = self.selected().map(|line| line.target.clone());
        match found {
            Ok(overview) => {
                (self.lines, self.read_at, self.error) = (overview.lines(), now, None);
                let position = self.shown().iter().position(|line| Some(&line.target) == selected.as_ref());
                self.select(position.or(self.table.selected()).unwrap_or_default());
            }
            Err(error) => self.error = Some(error.lines().next().unwrap_or_default().to_owned()),
        }
    }

    fn selected(&self) -> Option<&Line> {
        self.shown().get(self.table.selected()?).copied()
    }

    fn open(&mut self, title: String, text: Vec<String>) {
        (self.explained, self.scrolled) = (Some((title, text)), 0);
    }

    fn scroll(&mut self, by: i16) {
        let last = self.explained.as_ref().map_or(0, |(_, text)| text.len().saturating_sub(1));
        let last = u16::try_from(last).unwrap_or(u16::MAX);
        self.scrolled = self.scrolled.saturating_add_signed(by).min(last);
    }

    fn explain(&mut self, text: Vec<String>) {
        if let Some((_, shown)) = &mut self.explained {
            *shown = if text.is_empty() { vec!["there is nothing to explain".to_owned()] } else { text };
        }
    }

    fn handle(&mut self, event: Event) -> Request {
        let Event::Key(KeyEvent { code, modifiers, kind: KeyEventKind::Press, .. }) = event else {
            return Request::Nothing;
        };
        if code == KeyCode::Char('c') && modifiers.contains(KeyModifiers::CONTROL) {
            return Request::Leave;
        }
        if self.is_filtering {
            self.edit_filter(code);
            return Request::Nothing;
        }
        match code {
            KeyCode::Char('q') if self.explained.is_none() => return Request::Leave,
            KeyCode::Esc | KeyCode::Char('q') if self.explained.is_some() => self.explained = None,
            KeyCode::Esc => self.set_filter(String::new()),
            KeyCode::Down | KeyCode::Char('j') if self.explained.is_some() => self.scroll(1),
            KeyCode::Up | KeyCode::Char('k') if self.explained.is_some() => self.scroll(-1),
            KeyCode::Char('r') => return Request::Refresh,
            KeyCode::Char('?') => {
                let text = bar::LEGEND.map(str::to_owned).to_vec();
                self.open("flags and keys".to_owned(), text);
            }
            KeyCode::Char('/') => self.is_filtering = true,
            KeyCode::Down | KeyCode::Char('j') => self.move_by(1),
            KeyCode::Up | KeyCode::Char('k') => self.move_by(-1),
            KeyCode::PageDown => self.move_by(10),
            KeyCode::PageUp => self.move_by(-10),
            KeyCode::Home | KeyCode::Char('g') => self.select(0),
            KeyCode::End | KeyCode::Char('G') => self.select(usize::MAX),
            KeyCode::Enter | KeyCode::Char('e') => {
                let Some(line) = self.selected() else { return Request::Nothing };
                let (target, title) =
                    (line.target.clone(), line.cells[0].trim_start_matches(BRANCHES).to_owned());
                self.open(title, vec!["…".to_owned()]);
                return Request::Explain(target);
            }
            _ => {}
        }
        Request::Nothing
    }

    fn edit_filter(&mut self, code: KeyCode) {
        let mut filter = self.filter.clone();
        match code {
            KeyCode::Enter => self.is_filtering = false,
            KeyCode::Esc => {
                (self.is_filtering, filter) = (false, String::new());
            }
            KeyCode::Backspace => {
                filter.pop();
            }
            KeyCode::Char(letter) => filter.push(letter),
            _ => {}
        }
        self.set_filter(filter);
    }

    fn set_filter(&mut self, filter: String) {
        if filter != self.filter {
            self.filter = filter;
            self.select(0);
        }
    }

    fn draw(&mut self, frame: &mut Frame<'_>) {
        let [tree, status] =
            Layout::vertical([Constraint::Fill(1), Constraint::Length(1)]).areas(frame.area());
        let shown = self.shown();
        let count = shown.len();
        let table = table(&shown, tree.width);
        frame.render_stateful_widget(table, tree, &mut self.table);
        // The header takes one line.
        let last = self.table.offset() + usize::from(tree.height).saturating_sub(1);
        frame.render_widget(self.status(count.saturating_sub(last), status.width), status);
        if let Some((title, text)) = &self.explained {
            let height =
                u16::try_from(text.len()).unwrap_or(u16::MAX).saturating_add(4).clamp(5, tree.height.max(5));
            let [_, area] = Layout::vertical([Constraint::Fill(1), Constraint::Length(height)]).areas(tree);
            let lines: Vec<Text<'_>> = text.iter().map(|line| Text::raw(printable(line))).collect();
            let block = Block::bordered().title(printable(&format!(" {title} — ↑↓ scroll, Esc closes ")));
            frame.render_widget(Clear, area);
            let text = Paragraph::new(lines).wrap(Wrap { trim: false }).scroll((self.scrolled, 0));
            frame.render_widget(text.block(block), area);
        }
    }

    /// The line below the tree; `below`: lines of it that do not fit on the screen.
    fn status(&self, below: usize, width: u16) -> Text<'static> {
        if self.is_filtering {
            return Text::raw(printable(&format!("/{}▏  Enter keeps the filter, Esc ends it", self.filter)));
        }
        let width = usize::from(width);
        if let Some(error) = &self.error {
            let since = self.read_at.to_zoned(jiff::tz::TimeZone::system()).strftime("%H:%M:%S");
            // On a narrow screen the end of the text, which is the cause, is cut.
            let failed = error.split(": ").next().unwrap_or_default();
            let line = bar::line(&[format!("OUT OF DATE: {failed}, since {since}")], width);
            return Text::styled(line, Style::new().fg(Color::Red).add_modifier(Modifier::BOLD));
        }
        let below = (below > 0).then(|| format!("↓ {below} more"));
        let filter = (!self.filter.is_empty()).then(|| format!("filter: {}", self.filter));
        Text::raw(bar::line(&below.into_iter().chain(filter).collect::<Vec<String>>(), width))
    }
}

/// The lines in the columns that fit.
fn table(lines: &[&Line], width: u16) -> Table<'static> {
    let columns = columns::fitting(lines, usize::from(width));
    let row = |cells: &dyn Fn(usize) -> String| {
        Row::new(columns.iter().map(|(column, width)| cut(&cells(*column), *width)).collect::<Vec<String>>())
    };
    let rows = lines.iter().map(|line| row(&|column| line.cells[column].clone()).style(style(line.tone)));
    let header = row(&|column| HEADER[column].to_owned()).style(Style::new().add_modifier(Modifier::BOLD));
    let widths = columns.iter().map(|(_, width)| u16::try_from(*width).unwrap_or(u16::MAX));
    Table::new(rows.collect::<Vec<Row<'static>>>(), widths.map(Constraint::Length))
        .header(header)
        .column_spacing(1)
        .row_highlight_style(Style::new().add_modifier(Modifier::REVERSED))
}

fn style(tone: Tone) -> Style {
    // The terminal library handles NO_COLOR.
    match tone {
        Tone::Calm => Style::new(),
        Tone::Warning => Style::new().fg(Color::Yellow),
        Tone::Error => Style::new().fg(Color::Red),
    }
}

#[cfg(test)]
mod tests {
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;

    use super::*;

    fn line(what: &str, target: Target, note: &str) -> Line {
        let mut cells: [String; HEADER.len()] = Default::default();
        (cells[0], cells[6]) = (what.to_owned(), note.to_owned());
        Line { cells, target, tone: Tone::Calm }
    }

    fn app() -> App {
        let mut app = App::new(&Overview::default(), Timestamp::UNIX_EPOCH);
        let policy = "o/cam".to_owned();
        app.lines = vec![
            line("o/cam", Target::Policy(policy.clone()), "updating 1/2"),
            line("└ all", Target::Unit(policy.clone(), "all".to_owned()), ""),
            line("  └ n1", Target::Instance(policy, "n1".to_owned()), "placed by a user"),
        ];
        app.select(0);
        app
    }

    fn press(app: &mut App, code: KeyCode) -> Request {
        app.handle(Event::Key(KeyEvent::new(code, KeyModifiers::NONE)))
    }

    fn drawn(app: &mut App, width: u16) -> String {
        let mut terminal = Terminal::new(TestBackend::new(width, 10)).unwrap();
        terminal.draw(|frame| app.draw(frame)).unwrap();
        terminal.backend().to_string()
    }

    #[test]
    fn one_key_explains_the_selected_line_and_another_one_closes_that() {
        let mut app = app();
        press(&mut app, KeyCode::Down);
        press(&mut app, KeyCode::Down);
        press(&mut app, KeyCode::Down);
        let target = Target::Instance("o/cam".to_owned(), "n1".to_owned());
        assert_eq!(press(&mut app, KeyCode::Enter), Request::Explain(target));
        app.explain(vec!["n1  chosen".to_owned()]);
        let text = drawn(&mut app, 60);
        assert!(text.contains("n1  chosen") && text.contains(" n1 — ↑↓ scroll, Esc closes"), "{text}");
        assert_eq!(press(&mut app, KeyCode::Char('q')), Request::Nothing);
        assert!(!drawn(&mut app, 60).contains("chosen"));
        assert_eq!(press(&mut app, KeyCode::Char('q')), Request::Leave);
    }

    #[test]
    fn filter_hides_lines_and_the_selection_follows_what_it_is_about() {
        let mut app = app();
        press(&mut app, KeyCode::Char('/'));
        for letter in "n1".chars() {
            press(&mut app, KeyCode::Char(letter));
        }
        assert!(drawn(&mut app, 60).contains("/n1▏"));
        press(&mut app, KeyCode::Enter);
        assert_eq!(
            (app.shown().len(), app.selected().map(|line| line.cells[0].as_str())),
            (1, Some("  └ n1"))
        );
        press(&mut app, KeyCode::Esc);
        assert_eq!(app.shown().len(), 3);
    }

    #[test]
    fn what_is_out_of_date_is_said() {
        let mut app = app();
        app.refresh(Err("no hub responds at http://hub: refused\nmore".to_owned()), Timestamp::UNIX_EPOCH);
        let text = drawn(&mut app, 80);
        assert!(text.contains("OUT OF DATE: no hub responds at http://hub, since"), "{text}");
        let narrow = drawn(&mut app, 44);
        assert!(narrow.contains("no hub responds") && narrow.contains("q quit"), "{narrow}");
        assert!(text.contains("updating 1/2"), "what was known stays");
    }

    #[test]
    fn lines_below_the_screen_are_counted() {
        let mut app = app();
        assert!(!drawn(&mut app, 60).contains("more"));
        app.lines =
            std::iter::repeat_with(|| line("o/x", Target::Policy("o/x".to_owned()), "")).take(20).collect();
        assert!(drawn(&mut app, 60).contains("↓ 12 more   q quit"), "{}", drawn(&mut app, 60));
        press(&mut app, KeyCode::Char('G'));
        assert!(!drawn(&mut app, 60).contains("more"));
    }

    #[test]
    fn legend_explains_flags_and_keys() {
        let mut app = app();
        press(&mut app, KeyCode::Char('?'));
        let text = drawn(&mut app, 80);
        assert!(text.contains("flags and keys — ") && text.contains("natural leader"), "{text}");
        assert!(!text.contains("q: quit"), "it does not fit: {text}");
        (0..20).for_each(|_| drop(press(&mut app, KeyCode::Down)));
        assert!(drawn(&mut app, 80).contains("q: quit"));
        press(&mut app, KeyCode::Esc);
        assert!(!drawn(&mut app, 80).contains("natural leader"));
    }

    #[test]
    fn narrow_screen_keeps_what_and_how_it_stands() {
        let mut app = app();
        for width in [30, 40, 80, 200] {
            let text = drawn(&mut app, width);
            assert!(text.contains("o/cam") && text.contains("updatin"), "{width}: {text}");
        }
    }
}
