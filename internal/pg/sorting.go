package pg

import (
	"cmp"
	"fmt"
	"strings"
	"time"
)

// Sorting has the columns by which a list of rows can be sorted. Text sorts by its bytes, so that all installations sort
// alike.
type Sorting[T any] struct {
	Columns map[string]Column[T]
	Default string    // a name of Columns, with a minus sign for the reverse
	Unique  Column[T] // separates rows with the same value
}

// Column is an expression that is never NULL, with its type: text, timestamptz or uuid. Key returns its value as text.
type Column[T any] struct {
	SQL, Type string
	Key       func(T) string
}

// Place is a position in a sorted list: the values of a row. The zero Place is before the first row.
type Place struct {
	Key string `json:"key"`
	Row string `json:"row"`
}

// PlaceOf returns the position of a row.
func (s Sorting[T]) PlaceOf(sort string, row T) Place {
	return Place{s.Columns[strings.TrimPrefix(cmp.Or(sort, s.Default), "-")].Key(row), s.Unique.Key(row)}
}

// Page returns the condition on the rows after a position and the clause that sorts them. The parameters with the
// numbers key and row have the values of the position that it returns.
func (s Sorting[T]) Page(sort string, after Place, key, row int) (condition, sorting string, at Place) {
	name, desc := strings.CutPrefix(cmp.Or(sort, s.Default), "-")
	by, compare, direction := s.Columns[name], ">", ""
	if desc {
		compare, direction = "<", " DESC"
	}
	if after == (Place{}) {
		after = Place{by.before(desc), s.Unique.before(desc)}
	}
	return fmt.Sprintf("(%s, %s) %s ($%d::%s, $%d::%s)", by.bytes(), s.Unique.bytes(), compare, key, by.Type, row, s.Unique.Type),
		fmt.Sprintf("ORDER BY %[1]s%[3]s, %[2]s%[3]s", by.bytes(), s.Unique.bytes(), direction), after
}

func (c Column[T]) bytes() string {
	if c.Type == "text" {
		return c.SQL + ` COLLATE "C"`
	}
	return c.SQL
}

// before returns a value before those of all rows.
func (c Column[T]) before(desc bool) string {
	least := map[string]string{"timestamptz": "-infinity", "uuid": "00000000-0000-0000-0000-000000000000"}
	most := map[string]string{"text": "\U0010FFFF", "timestamptz": "infinity", "uuid": "ffffffff-ffff-ffff-ffff-ffffffffffff"}
	if desc {
		return most[c.Type]
	}
	return least[c.Type]
}

// TimeKey returns a time as the key of a column; without a time it is the last one.
func TimeKey(t *time.Time) string {
	if t == nil {
		return "infinity"
	}
	return t.Format(time.RFC3339Nano)
}
