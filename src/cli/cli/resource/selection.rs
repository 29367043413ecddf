//! Parts of lists: the entries that a constraint selects, a page of them, or their number.

use clap::Args;
use evenkeel_client::{Records, RecordsPage};
use evenkeel_wire::page::{MAX_LIMIT, PageQuery};
use serde_json::json;

use super::{Kind, plural, require_org};
use crate::context::Exchange;
use crate::exit::{CliError, Outcome};
use crate::output::{Table, View, print_note};

/// Selection of entries of a list.
#[derive(Debug, Clone, Default, Args)]
pub struct ListSelection {
    /// Only entries that satisfy this constraint over their members, such as 'owner == "acme/erin"'
    #[arg(long, value_name = "CONSTRAINT")]
    filter: Option<String>,
    /// At most this many entries, 1 to 1000; a note names the --after of the following ones
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u16).range(1..=i64::from(MAX_LIMIT)))]
    limit: Option<u16>,
    /// Only entries after this one, in the order of the list
    #[arg(long, value_name = "NAME")]
    after: Option<String>,
    /// Print only the number of entries
    #[arg(long)]
    count: bool,
}

impl ListSelection {
    /// Returns whether everything is selected.
    pub fn is_whole(&self) -> bool {
        self.filter.is_none() && self.limit.is_none() && self.after.is_none() && !self.count
    }

    /// Refuses a selection beside the name of one resource.
    ///
    /// # Errors
    /// With status 1.
    pub fn require_whole(&self, name: Option<&str>) -> Outcome {
        if self.is_whole() || name.is_none() {
            return Ok(());
        }
        Err(CliError::input(
            "one resource cannot be selected from",
            "--filter, --limit, --after and --count are for lists",
            "leave the name or the options out",
        ))
    }

    /// Returns whether only the number of entries is wanted.
    pub fn is_count(&self) -> bool {
        self.count
    }

    /// Reads all that are selected, page by page.
    ///
    /// # Errors
    /// Those of the pages; with status 1 when the exchange does not select.
    pub async fn read(&self, page: impl AsyncFn(&PageQuery) -> Outcome<RecordsPage>) -> Outcome<Records> {
        if self.is_whole() {
            return Ok(page(&PageQuery::default()).await?.records);
        }
        let mut query = PageQuery {
            limit: Some(self.limit.unwrap_or(MAX_LIMIT)),
            after: self.after.clone(),
            filter: self.filter.clone(),
            count: Some(true),
        };
        let mut all = Records::new();
        loop {
            let found = page(&query).await?;
            require_selected(&query, &found)?;
            all.extend(found.records);
            let Some(next) = found.next else { return Ok(all) };
            let is_full = self.limit.is_some_and(|limit| all.len() >= usize::from(limit));
            if is_full {
                print_note(format!("more follow: --after {next}"));
                return Ok(all);
            }
            // A page with a filter may end before its limit.
            let missing =
                self.limit.map(|limit| limit.saturating_sub(u16::try_from(all.len()).unwrap_or(limit)));
            query = PageQuery {
                limit: Some(missing.unwrap_or(MAX_LIMIT)),
                after: Some(next),
                count: None,
                ..query
            };
        }
    }

    /// Shows the number of all that are selected.
    ///
    /// # Errors
    /// See [`ListSelection::read`].
    pub async fn count(&self, page: impl AsyncFn(&PageQuery) -> Outcome<RecordsPage>) -> Outcome<View> {
        let is_part = self.after.is_some() || self.limit.is_some();
        let query = PageQuery {
            limit: Some(1),
            filter: self.filter.clone(),
            count: Some(true),
            ..PageQuery::default()
        };
        let first = if is_part { None } else { Some(page(&query).await?) };
        if let Some(first) = &first {
            require_selected(&query, first)?;
        }
        let counted = first.filter(|page| !page.count_is_minimum).and_then(|page| page.count);
        let number = match counted {
            Some(number) => number,
            // The exchange counts the first entries only.
            None => self.read(page).await?.len() as u64,
        };
        Ok(View::new(json!(number), Table::of_record(&json!({ "count": number }))))
    }
}

impl Kind {
    /// Shows the names of all that are selected, their details (`is_long`), or their number; or the details of one.
    ///
    /// # Errors
    /// See [`Kind::read`]; with status 1 for a selection beside a name.
    pub async fn list_selected(
        &self,
        exchange: &Exchange,
        name: Option<&str>,
        is_long: bool,
        selection: &ListSelection,
    ) -> Outcome<View> {
        selection.require_whole(name)?;
        if selection.is_count() {
            return self.count(exchange, selection).await;
        }
        let records = self.read_selected(exchange, name, selection).await?;
        Ok(self.view(records, is_long || name.is_some()))
    }

    /// Reads one, or all that are selected.
    ///
    /// # Errors
    /// See [`Kind::read`].
    pub async fn read_selected(
        &self,
        exchange: &Exchange,
        name: Option<&str>,
        selection: &ListSelection,
    ) -> Outcome<Records> {
        if name.is_some() || selection.is_whole() {
            return self.read(exchange, name).await;
        }
        selection.read(async |query: &PageQuery| self.page(exchange, query).await).await
    }

    /// Shows the number of all that are selected.
    ///
    /// # Errors
    /// See [`Kind::read`].
    pub async fn count(&self, exchange: &Exchange, selection: &ListSelection) -> Outcome<View> {
        selection.count(async |query: &PageQuery| self.page(exchange, query).await).await
    }

    async fn page(&self, exchange: &Exchange, query: &PageQuery) -> Outcome<RecordsPage> {
        let doing = format!("reading the list of {}", plural(self.noun));
        let found = exchange.server.client.records_page(self.resource, &exchange.org, query);
        let Some(page) = exchange.server.call(&doing, found).await? else {
            require_org(exchange, &exchange.org).await?;
            return Ok(RecordsPage::default());
        };
        Ok(page)
    }
}

/// Refuses a page of an exchange that does not select: it has the whole list.
fn require_selected(query: &PageQuery, page: &RecordsPage) -> Outcome {
    if query.count != Some(true) || page.count.is_some() || page.records.is_empty() {
        return Ok(());
    }
    Err(CliError::input(
        "this exchange cannot select from lists",
        "it ignores --filter, --limit, --after and --count",
        "list everything",
    ))
}
