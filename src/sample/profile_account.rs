//! An account in a recording: with the step that is drawn, which the JSON of a verdict does not have, and with its texts that people
//! wrote: names of files, machines, functions and annotations.

use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::private::{Private, TextKind, Visit};
use crate::profiles::account::ProfileAccount;
use crate::profiles::drawn::DrawnStep;

/// An account with its drawn step.
#[derive(Serialize)]
struct AccountWithStep<'a> {
    #[serde(flatten)]
    account: &'a ProfileAccount,
    #[serde(skip_serializing_if = "Option::is_none")]
    drawn: Option<DrawnStep>,
}

/// The same as it is read.
#[derive(Deserialize)]
struct ReadAccount {
    #[serde(flatten)]
    account: ProfileAccount,
    #[serde(default)]
    drawn: Option<DrawnStep>,
}

pub(super) fn serialize<S: Serializer>(account: &Option<Arc<ProfileAccount>>, to: S) -> Result<S::Ok, S::Error> {
    let written = account
        .as_deref()
        .map(|account| AccountWithStep { account, drawn: account.drawn.as_ref().map(DrawnStep::recorded) });
    written.serialize(to)
}

pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Arc<ProfileAccount>>, D::Error> {
    let read = Option::<ReadAccount>::deserialize(from)?;
    Ok(read.map(|ReadAccount { account, drawn }| Arc::new(ProfileAccount { drawn, ..account })))
}

impl Private for ProfileAccount {
    fn visit_texts(&mut self, visit: Visit<'_>) {
        for text in texts(self) {
            let mut visited: Arc<str> = text.as_str().into();
            visit(TextKind::Prose, &mut visited);
            if *visited != **text {
                *text = visited.as_ref().to_owned();
            }
        }
    }
}

fn texts(account: &mut ProfileAccount) -> impl Iterator<Item = &mut String> {
    let kernels = account.kernels.iter_mut().flat_map(|row| [&mut row.name, &mut row.raw]);
    let syncs = account.syncs.iter_mut();
    let syncs = syncs.flat_map(|row| [&mut row.operator, &mut row.at, &mut row.function]).flatten();
    let idle_at = account.idle_at.iter_mut().flat_map(|row| {
        let places = [&mut row.operator, &mut row.at, &mut row.function];
        std::iter::once(&mut row.name).chain(places.into_iter().flatten())
    });
    let requests = account.requests.iter_mut().map(|requests| &mut requests.name);
    let efficiency = account.efficiency.iter_mut().flat_map(|all| &mut all.operators).map(|row| &mut row.name);
    let across_ranks = account.across_ranks.iter_mut().flat_map(|across| {
        let ranks = across.ranks.iter_mut().flat_map(|rank| std::iter::once(&mut rank.file).chain(&mut rank.host));
        let groups = across.collectives.iter_mut().filter_map(|row| row.group.as_mut());
        ranks.chain(groups).chain(across.straggler.iter_mut().filter_map(|straggler| straggler.at.as_mut()))
    });
    let rows = account.operators.iter_mut().map(|row| &mut row.name);
    let rows = rows.chain(account.modules.iter_mut().map(|row| &mut row.name));
    let rows = rows.chain(account.collectives.iter_mut().map(|row| &mut row.name));
    let rows = rows.chain(across_ranks).chain(requests).chain(efficiency);
    let calls = account.calls.iter_mut().flat_map(|calls| &mut calls.rows).map(|row| &mut row.thread);
    let rows = rows.chain(calls);
    let drawn = account.drawn.iter_mut().flat_map(DrawnStep::texts_mut);
    let rows = rows.chain(drawn);
    account.file.iter_mut().chain(kernels).chain(syncs).chain(idle_at).chain(rows)
}
