//! Dense ids: places in lists, each kind for lists of its own alone.

use std::marker::PhantomData;
use std::ops::{Index, IndexMut, Range};

/// An id that is a place in a list.
pub trait Id: Copy {
    /// That of a place.
    fn new(index: usize) -> Self;

    /// The place.
    fn index(self) -> usize;
}

/// Makes a type that holds a `u32` an [`Id`].
macro_rules! dense_id {
    ($name:ident) => {
        impl $crate::base::Id for $name {
            #[inline]
            fn new(index: usize) -> $name {
                $name(index as u32)
            }

            #[inline]
            fn index(self) -> usize {
                self.0 as usize
            }
        }
    };
}

pub(crate) use dense_id;

/// A list that one kind of id alone looks things up in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IndexVec<I, T> {
    items: Vec<T>,
    ids: PhantomData<fn(I)>,
}

impl<I, T> Default for IndexVec<I, T> {
    fn default() -> Self {
        IndexVec::from(Vec::new())
    }
}

impl<I, T> From<Vec<T>> for IndexVec<I, T> {
    fn from(items: Vec<T>) -> Self {
        IndexVec { items, ids: PhantomData }
    }
}

impl<I, T> FromIterator<T> for IndexVec<I, T> {
    fn from_iter<It: IntoIterator<Item = T>>(items: It) -> Self {
        IndexVec::from(Vec::from_iter(items))
    }
}

impl<I: Id, T> IndexVec<I, T> {
    /// So many of the same.
    pub fn filled(with: T, count: usize) -> Self
    where
        T: Clone,
    {
        IndexVec::from(vec![with; count])
    }

    /// Puts one more at the end.
    pub fn push(&mut self, item: T) -> I {
        self.items.push(item);
        I::new(self.items.len() - 1)
    }

    /// The ids of all, in order.
    pub fn ids(&self) -> impl DoubleEndedIterator<Item = I> + use<I, T> {
        (0..self.items.len()).map(I::new)
    }

    /// What an id stands for.
    #[inline]
    pub fn get(&self, id: I) -> Option<&T> {
        self.items.get(id.index())
    }

    /// The same, to be changed.
    #[inline]
    pub fn get_mut(&mut self, id: I) -> Option<&mut T> {
        self.items.get_mut(id.index())
    }

    /// Those from one id up to another; none where the list ends before.
    pub fn range(&self, ids: Range<I>) -> &[T] {
        self.items.get(ids.start.index()..ids.end.index()).unwrap_or(&[])
    }

    /// The same with their ids.
    pub fn range_enumerated(&self, ids: Range<I>) -> impl DoubleEndedIterator<Item = (I, &T)> {
        let first = ids.start.index();
        self.range(ids).iter().enumerate().map(move |(at, item)| (I::new(first + at), item))
    }

    /// The first of all.
    pub fn first(&self) -> Option<&T> {
        self.items.first()
    }

    /// The last of all.
    pub fn last(&self) -> Option<&T> {
        self.items.last()
    }

    /// The id of the next that is put in.
    pub fn next_id(&self) -> I {
        I::new(self.items.len())
    }

    /// The first of which something does not hold, where it holds of all before it.
    pub fn partition_point(&self, holds: impl FnMut(&T) -> bool) -> I {
        I::new(self.items.partition_point(holds))
    }

    /// All of them, in order.
    pub fn iter(&self) -> std::slice::Iter<'_, T> {
        self.items.iter()
    }

    /// All of them, to be changed.
    pub fn iter_mut(&mut self) -> std::slice::IterMut<'_, T> {
        self.items.iter_mut()
    }

    /// All of them with their ids, in order.
    pub fn iter_enumerated(&self) -> impl DoubleEndedIterator<Item = (I, &T)> {
        self.items.iter().enumerate().map(|(at, item)| (I::new(at), item))
    }

    /// The same, each taken out.
    pub fn into_iter_enumerated(self) -> impl Iterator<Item = (I, T)> {
        self.items.into_iter().enumerate().map(|(at, item)| (I::new(at), item))
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.items.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }
}

impl<I, T> Extend<T> for IndexVec<I, T> {
    fn extend<It: IntoIterator<Item = T>>(&mut self, items: It) {
        self.items.extend(items);
    }
}

impl<I, T> IntoIterator for IndexVec<I, T> {
    type Item = T;
    type IntoIter = std::vec::IntoIter<T>;

    fn into_iter(self) -> std::vec::IntoIter<T> {
        self.items.into_iter()
    }
}

impl<'l, I, T> IntoIterator for &'l IndexVec<I, T> {
    type Item = &'l T;
    type IntoIter = std::slice::Iter<'l, T>;

    fn into_iter(self) -> std::slice::Iter<'l, T> {
        self.items.iter()
    }
}

impl<I: Id, T> Index<I> for IndexVec<I, T> {
    type Output = T;

    #[inline]
    fn index(&self, id: I) -> &T {
        &self.items[id.index()]
    }
}

impl<I: Id, T> IndexMut<I> for IndexVec<I, T> {
    #[inline]
    fn index_mut(&mut self, id: I) -> &mut T {
        &mut self.items[id.index()]
    }
}
