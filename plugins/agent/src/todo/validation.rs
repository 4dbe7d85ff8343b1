//! Validation of task lists: unique ids, non-empty content, one task in progress, and acyclic dependencies.

use std::collections::{HashMap, HashSet};

use toolhost_sdk::prelude::*;
use toolhost_sdk::text::{inline, list};

use super::{Status, Todo};

/// Limit of tasks in a list, including after merges.
const MOST: usize = 200;
/// Limit of the list in bytes. The host's own limit on session state has a less helpful error.
const MOST_BYTES: usize = 256 << 10;

/// Merges `given` into `known`.
pub fn merge(mut known: Vec<Todo>, given: Vec<Todo>) -> Result<Vec<Todo>> {
    let mut touched = HashSet::new();
    for (position, mut todo) in given.into_iter().enumerate() {
        todo.id = todo
            .id
            .map(|id| id.trim().to_owned())
            .filter(|id| !id.is_empty());
        // Ids are shown unescaped within single lines.
        if todo.id.as_ref().is_some_and(|id| inline(id, 64) != *id) {
            let shown = inline(todo.id(), 64);
            return Err(refuse(
                position,
                format!("the id {shown:?} is not a single line of printable characters"),
            ));
        }
        todo.content = todo.content.map(|content| content.trim().to_owned());
        let same = |other: &Todo| match &todo.id {
            Some(id) => other.id.as_ref() == Some(id),
            None => todo.content.is_some() && other.content == todo.content,
        };
        let index = known.iter().position(same);
        // Two new tasks with the same id are an error; two with the same content are separate tasks.
        let index = match index {
            Some(index) if touched.contains(&index) && todo.id.is_some() => {
                return Err(refuse(
                    position,
                    format!("the id {:?} is used twice; ids are unique", todo.id()),
                ));
            }
            index => index.filter(|index| !touched.contains(index)),
        };
        if todo.content.as_deref().unwrap_or_default().is_empty()
            && (index.is_none() || todo.content.is_some())
        {
            return Err(refuse(
                position,
                "`content` is empty; describe the task".to_owned(),
            ));
        }
        let index = if let Some(index) = index {
            known[index].take(todo);
            index
        } else {
            known.push(todo);
            known.len() - 1
        };
        touched.insert(index);
    }
    if known.len() > MOST {
        let message = format!("{} tasks are too many; the limit is {MOST}", known.len());
        return Err(invalid(message).recommend("omit completed tasks"));
    }
    let size = json!(known).to_string().len();
    if size > MOST_BYTES {
        let message = format!("the tasks have {size} bytes; at most {MOST_BYTES} can be kept");
        return Err(invalid(message).recommend("write shorter notes"));
    }
    assign_ids(&mut known);
    check(&known)?;
    Ok(known)
}

impl Todo {
    /// Updates the fields that `other` sets; the others stay.
    fn take(&mut self, other: Todo) {
        self.status = other.status;
        self.content = other.content.or(self.content.take());
        self.active_form = other.active_form.or(self.active_form.take());
        self.priority = other.priority.or(self.priority);
        self.assignee = other.assignee.or(self.assignee.take());
        self.notes = other.notes.or(self.notes.take());
        self.depends_on = other.depends_on.or(self.depends_on.take());
    }
}

fn assign_ids(todos: &mut [Todo]) {
    let taken: HashSet<String> = todos.iter().filter_map(|todo| todo.id.clone()).collect();
    let mut free = (1_u32..)
        .map(|number| number.to_string())
        .filter(|id| !taken.contains(id));
    for todo in todos.iter_mut().filter(|todo| todo.id.is_none()) {
        todo.id = free.next();
    }
}

fn check(todos: &[Todo]) -> Result<()> {
    let working: Vec<&str> = todos
        .iter()
        .filter(|todo| todo.status == Status::InProgress)
        .map(Todo::id)
        .collect();
    if working.len() > 1 {
        let message = format!(
            "{} tasks are in_progress ({}); work on one at a time",
            working.len(),
            list(working.iter().copied(), 5)
        );
        return Err(invalid(message).recommend("set all but one of them to pending or completed"));
    }
    let before: HashMap<&str, &[String]> = todos
        .iter()
        .map(|todo| (todo.id(), todo.depends_on.as_deref().unwrap_or_default()))
        .collect();
    for todo in todos {
        for id in before[todo.id()] {
            if !before.contains_key(id.as_str()) {
                let message = format!(
                    "the task {:?} depends on {:?}, which does not exist",
                    todo.id(),
                    inline(id, 64)
                );
                let known = list(todos.iter().map(Todo::id), 20);
                return Err(invalid(message).recommend(format!("use one of the ids: {known}")));
            }
        }
    }
    match find_cycle(todos, &before) {
        Some(path) => Err(invalid(format!(
            "tasks have a dependency cycle: {}",
            path.join(" → ")
        ))
        .recommend("remove one of these dependencies")),
        None => Ok(()),
    }
}

/// The first dependency cycle, from a task back to itself.
fn find_cycle<'a>(
    todos: &'a [Todo],
    before: &HashMap<&'a str, &'a [String]>,
) -> Option<Vec<&'a str>> {
    let mut done = HashSet::new();
    for todo in todos {
        // Iterative, because a chain of dependencies can be as long as the list. Each entry is a task and the index of
        // its next dependency.
        let mut path = vec![(todo.id(), 0)];
        while let Some((id, next)) = path.last_mut() {
            let Some(dependency) = before[*id].get(*next).filter(|_| !done.contains(*id)) else {
                done.insert(*id);
                path.pop();
                continue;
            };
            *next += 1;
            if let Some(start) = path.iter().position(|(id, _)| id == dependency) {
                let ids = path[start..].iter().map(|(id, _)| *id);
                return Some(ids.chain([dependency.as_str()]).collect());
            }
            path.push((dependency, 0));
        }
    }
    None
}

fn refuse(position: usize, reason: String) -> Error {
    invalid(format!("todos[{position}]: {reason}"))
}

fn invalid(message: String) -> Error {
    Error::invalid_input(message).code("invalid_todos")
}
