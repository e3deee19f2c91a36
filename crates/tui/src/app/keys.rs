//! What keys do: those that mean the same everywhere, those of whatever covers the page, and the page's own.

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use super::popup::Popup;
use super::setup::Setup;
use super::{App, export};
use crate::arrangement::Scale;
use crate::job::Job;
use crate::jobs::JobList;
use crate::message::Effect;
use crate::pages::keys::{self, Action};
use crate::pages::{Page, Reply};
use crate::widgets::Extent;

impl App {
    pub(super) fn key(&mut self, key: KeyEvent) -> Vec<Effect> {
        // To a terminal, Alt with a character is Escape and the character: typed one after the other, they come at once over a slow
        // line. No key has Alt.
        if key.modifiers.contains(KeyModifiers::ALT) && matches!(key.code, KeyCode::Char(_)) {
            let mut effects = self.key(KeyEvent::new(KeyCode::Esc, KeyModifiers::NONE));
            effects.extend(self.key(KeyEvent { modifiers: key.modifiers - KeyModifiers::ALT, ..key }));
            return effects;
        }
        let had_notice = self.notice.take().is_some() | self.has_said_profile();
        let always =
            key.modifiers.contains(KeyModifiers::CONTROL) && matches!(key.code, KeyCode::Char('c' | 'l' | 'z'));
        if !always
            && self.fits()
            && let Some(effects) = self.popup_key(key).or_else(|| self.list_key(key))
        {
            return effects;
        }
        match keys::action(key) {
            Some(action) => self.act(action),
            None if had_notice => vec![Effect::Redraw],
            None => Vec::new(),
        }
    }

    pub(super) fn act(&mut self, action: Action) -> Vec<Effect> {
        match action {
            Action::Quit => return vec![Effect::Quit],
            Action::Suspend => return vec![Effect::Suspend],
            Action::Redraw => return vec![Effect::Repaint],
            Action::Refresh => return vec![Effect::Refresh],
            _ if self.fleet.is_some() => return self.page_act(action),
            // The list stays open, and there is no page below it.
            _ if self.jobs.is_empty() => return Vec::new(),
            Action::Copy => return self.copy(),
            Action::Mouse => return self.switch_mouse(),
            Action::Close => return self.close(),
            other if self.pages.get(self.page).takes(other) => return self.page_act(other),
            Action::TakeProfile => return self.take_profile(),
            Action::Go(Page::Help) if self.page == Page::Help => self.go(Page::Overview),
            Action::Go(page) => self.go(page),
            Action::NextPage => self.go(self.page.after(1)),
            Action::PreviousPage => self.go(self.page.after(Page::ALL.len() - 1)),
            Action::ZoomIn => self.zoom(Scale::next(false, self.span_s()).unwrap_or(self.scale)),
            Action::ZoomOut => self.zoom(Scale::next(true, self.span_s()).unwrap_or(self.scale)),
            Action::Pause => self.travel(Job::pause),
            Action::StepBack => self.travel(|job| job.step(-1)),
            Action::StepForward => self.travel(|job| job.step(1)),
            Action::FarBack => self.travel(|job| job.move_by(-job.span_s() / 10.0)),
            Action::FarForward => self.travel(|job| job.move_by(job.span_s() / 10.0)),
            Action::Oldest => self.travel(Job::first),
            Action::Newest => self.travel(Job::last),
            Action::Bottom if !self.job().is_live() && self.job().replay.is_none() => self.travel(Job::last),
            Action::PreviousChange => self.travel_to_change(false),
            Action::NextChange => self.travel_to_change(true),
            Action::Slower => self.travel(|job| job.change_speed(false)),
            Action::Faster => self.travel(|job| job.change_speed(true)),
            Action::Jobs => {
                self.popup = None;
                self.list = Some(JobList::at(self.job().key));
                self.drawn.popup = Extent::default();
                self.refresh();
            }
            Action::NextJob if self.jobs.len() < 2 => return self.say("no other job: press o to attach to one"),
            Action::NextJob => self.switch((self.current + 1) % self.jobs.len()),
            Action::Setup => self.popup = Some(Popup::Setup(Setup::default())),
            Action::Output if matches!(self.popup, Some(Popup::Output)) => self.popup = None,
            Action::Output if self.output().is_some() => self.popup = Some(Popup::Output),
            Action::Output => {
                return self.say("no output to show: trainmon run -- PROGRAM shows what the program writes");
            }
            Action::Export => self.popup = Some(export::menu()),
            // The answer in full.
            Action::Enter if self.page == Page::Overview => self.go(Page::Findings),
            Action::Enter if !matches!(self.page, Page::Processes | Page::Stacks | Page::Profile) => {
                return self.nothing_to_open();
            }
            Action::NextTable | Action::PreviousTable if self.page != Page::Profile => self.go(Page::Profile),
            other if other.is_for_processes() && self.page != Page::Processes => return self.act_on_processes(other),
            other => return self.page_act(other),
        }
        vec![Effect::Redraw]
    }

    /// Closes what is on top, or gives up the profile that is on its way, or goes back to the first page.
    fn close(&mut self) -> Vec<Effect> {
        if self.popup.is_none() && self.is_asking() {
            return self.give_up_profile();
        }
        if self.popup.take().is_none() {
            self.go(Page::Overview);
        }
        vec![Effect::Redraw]
    }

    /// Says where Enter opens something.
    fn nothing_to_open(&mut self) -> Vec<Effect> {
        let [processes, stacks] = [Page::Processes, Page::Stacks].map(|page| keys::key_of(Action::Go(page)));
        self.say(&format!("nothing to open here: press {processes} for processes, {stacks} for functions"))
    }

    /// Opens the page of processes for an action that another page has no use for. Nothing is done to a process that was not
    /// selected there.
    fn act_on_processes(&mut self, action: Action) -> Vec<Effect> {
        self.go(Page::Processes);
        let effects = self.page_act(action);
        if action == Action::Kill && self.popup.take().is_some() {
            let key = keys::key_of(action);
            return self.say(&format!("select a process with Up and Down, then press {key}"));
        }
        effects
    }

    /// Passes an action to the current page.
    pub(super) fn page_act(&mut self, action: Action) -> Vec<Effect> {
        let (page, extent) = (self.page, self.drawn.page);
        let (content, scene) = self.on_page();
        let reply = match action.rows(extent.visible) {
            None => content.act(action, &scene),
            Some(by) => {
                if !content.select_by(by, &scene)
                    && let Some(top) = self.scroll.get_mut(page.index())
                {
                    *top = top.saturating_add_signed(by).min(extent.last_top());
                }
                Reply::Changed
            }
        };
        self.reply(reply)
    }

    pub(super) fn reply(&mut self, reply: Reply) -> Vec<Effect> {
        let mut effects = Vec::new();
        match reply {
            Reply::Nothing => return effects,
            Reply::Changed => {}
            Reply::Menu(menu) => self.popup = Some(Popup::Menu(menu)),
            Reply::Prompt(prompt) => self.popup = Some(Popup::Prompt(prompt)),
            Reply::Detail => {
                self.popup = Some(Popup::Detail);
                self.drawn.popup = Extent::default();
            }
            Reply::Confirm(confirm) => self.popup = Some(Popup::Confirm(confirm)),
            Reply::Notice(text) => return self.say(&text),
            Reply::Act(action) => return self.act(action),
            Reply::Export(export) => return self.export(export),
            Reply::CloseList if self.jobs.is_empty() => {}
            Reply::CloseList => self.list = None,
            Reply::ShowJob(key) => self.show(key),
            Reply::Attach(pid) => effects = self.attach(pid),
        }
        effects.push(Effect::Redraw);
        effects
    }

    pub(super) fn go(&mut self, page: Page) {
        self.page = page;
        self.popup = None;
        self.list = None;
        self.refresh();
    }
}
