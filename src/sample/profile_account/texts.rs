//! The texts of an account that people wrote: names of files, functions and annotations.

use std::sync::Arc;

use super::ProfileAccount;
use crate::sample::private::{Private, TextKind, Visit};

impl ProfileAccount {
    fn texts_mut(&mut self) -> impl Iterator<Item = &mut String> {
        let kernels = self.kernels.iter_mut().flat_map(|row| [&mut row.name, &mut row.raw]);
        let syncs = self.syncs.iter_mut();
        let syncs = syncs.flat_map(|row| [&mut row.operator, &mut row.at, &mut row.function]).flatten();
        let idle_at = self.idle_at.iter_mut().flat_map(|row| {
            let places = [&mut row.operator, &mut row.at, &mut row.function];
            std::iter::once(&mut row.name).chain(places.into_iter().flatten())
        });
        let requests = self.requests.iter_mut().map(|requests| &mut requests.name);
        let efficiency = self.efficiency.iter_mut().flat_map(|all| &mut all.operators).map(|row| &mut row.name);
        let rows = self.operators.iter_mut().map(|row| &mut row.name);
        let rows = rows.chain(self.modules.iter_mut().map(|row| &mut row.name));
        let rows = rows.chain(self.collectives.iter_mut().map(|row| &mut row.name));
        let across = self.across_ranks.iter_mut().flat_map(|across| {
            let ranks = across.ranks.iter_mut().flat_map(|row| std::iter::once(&mut row.file).chain(&mut row.host));
            let groups = across.collectives.iter_mut().filter_map(|row| row.group.as_mut());
            ranks.chain(groups).chain(across.straggler.iter_mut().filter_map(|straggler| straggler.at.as_mut()))
        });
        let rows = rows.chain(across);
        self.file.iter_mut().chain(kernels).chain(syncs).chain(idle_at).chain(requests).chain(efficiency).chain(rows)
    }
}

impl Private for ProfileAccount {
    fn visit_texts(&mut self, visit: Visit<'_>) {
        for text in self.texts_mut() {
            let mut visited: Arc<str> = text.as_str().into();
            visit(TextKind::Prose, &mut visited);
            if *visited != **text {
                *text = visited.as_ref().to_owned();
            }
        }
    }
}
