package scripted

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
)

// Values in templates are what JSON knows: nil, bool, int64 or float64, string, []any,
// map[string]any. plainValue makes the ints of template literals int64.
func plainValue(v any) any {
	switch v := v.(type) {
	case int:
		return int64(v)
	case rune:
		return int64(v)
	}
	return v
}

// fromJSON reads one JSON value. Whole numbers stay whole.
func fromJSON(text string) (any, error) {
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return nil, fmt.Errorf("not JSON: %w", err)
	}
	if _, err := d.Token(); err != io.EOF {
		return nil, errors.New("not JSON: something follows the first value")
	}
	return numbersIn(v)
}

// numbersIn replaces json.Number by int64 or float64.
func numbersIn(v any) (any, error) {
	var err error
	switch v := v.(type) {
	case json.Number:
		return number(string(v))
	case []any:
		for i := range v {
			if v[i], err = numbersIn(v[i]); err != nil {
				return nil, err
			}
		}
	case map[string]any:
		for k := range v {
			if v[k], err = numbersIn(v[k]); err != nil {
				return nil, err
			}
		}
	}
	return v, nil
}

// number makes v an int64 or a float64. A string that looks like a number is one.
func number(v any) (any, error) {
	switch v := plainValue(v).(type) {
	case int64:
		return v, nil
	case float64:
		if !math.IsNaN(v) && !math.IsInf(v, 0) {
			return v, nil
		}
	case string:
		s := strings.TrimSpace(v)
		if i, err := strconv.ParseInt(s, 10, 64); err == nil {
			return i, nil
		}
		if f, err := strconv.ParseFloat(s, 64); err == nil && !math.IsNaN(f) && !math.IsInf(f, 0) {
			return f, nil
		}
	}
	return nil, fmt.Errorf("not a number: %s", shortly(v))
}

func float(v any) (float64, error) {
	n, err := number(v)
	if i, ok := n.(int64); ok {
		return float64(i), err
	}
	f, _ := n.(float64)
	return f, err
}

func whole(v any) (int64, error) {
	n, err := number(v)
	if err != nil {
		return 0, err
	}
	if f, ok := n.(float64); ok {
		if f = math.Trunc(f); f < math.MinInt64 || f >= math.MaxInt64 {
			return 0, fmt.Errorf("not a whole number: %v", v)
		}
		return int64(f), nil
	}
	return n.(int64), nil
}

// text is a value as text: strings as they are, lists and maps as JSON, nil as nothing.
func text(v any) string {
	switch v := plainValue(v).(type) {
	case nil:
		return ""
	case string:
		return v
	case bool:
		return strconv.FormatBool(v)
	case int64:
		return strconv.FormatInt(v, 10)
	case float64:
		return strconv.FormatFloat(v, 'f', -1, 64)
	case []any, map[string]any:
		if weigh(v) > maxOutput {
			return "(too long)"
		}
		var b bytes.Buffer
		if err := encode(&b, v); err == nil {
			return b.String()
		}
	}
	return fmt.Sprint(v)
}

// weigh estimates how long a value is as text, and stops counting beyond maxOutput. A small list
// can stand for a very long text, because the same item may be in it many times.
func weigh(v any) int {
	n := 1
	switch v := v.(type) {
	case string:
		return n + len(v)
	case []any:
		for i := 0; i < len(v) && n <= maxOutput; i++ {
			n += weigh(v[i])
		}
	case map[string]any:
		for k, e := range v {
			if n += len(k) + weigh(e); n > maxOutput {
				break
			}
		}
	}
	return n
}

// shortly is the beginning of a value's text, for errors.
func shortly(v any) string { return quote(text(v)) }

// compare orders numbers as numbers and everything else as text.
func compare(a, b any) int {
	a, b = plainValue(a), plainValue(b)
	x, xok := a.(int64)
	y, yok := b.(int64)
	if xok && yok {
		return cmp.Compare(x, y)
	}
	if _, s := a.(string); !s {
		if _, s := b.(string); !s {
			f, err := float(a)
			g, err2 := float(b)
			if err == nil && err2 == nil {
				return cmp.Compare(f, g)
			}
		}
	}
	return cmp.Compare(text(a), text(b))
}

// same reports whether two values are equal: nil only to nil, all else by its text.
func same(a, b any) bool {
	if a == nil || b == nil {
		return a == nil && b == nil
	}
	return compare(a, b) == 0
}

// items is v as a list; nil is an empty one.
func items(v any) ([]any, error) {
	switch v := v.(type) {
	case nil:
		return nil, nil
	case []any:
		return v, nil
	case []string: // what the range of a builtin may hold
		l := make([]any, len(v))
		for i := range v {
			l[i] = v[i]
		}
		return l, nil
	}
	return nil, fmt.Errorf("not a list: %s", shortly(v))
}

// get follows key into v: the key as it is, or else part by part at its dots. Numbers index lists. A
// missing part gives nil.
func get(key any, v any) any {
	k := text(key)
	switch v := v.(type) {
	case map[string]any:
		if found, ok := v[k]; ok {
			return found
		}
		if head, tail, dotted := strings.Cut(k, "."); dotted {
			if next, ok := v[head]; ok {
				return get(tail, next)
			}
		}
	case []any:
		head, tail, dotted := strings.Cut(k, ".")
		if i, err := strconv.Atoi(head); err == nil && i >= 0 && i < len(v) {
			if dotted {
				return get(tail, v[i])
			}
			return v[i]
		}
	}
	return nil
}

// empty reports whether default replaces v.
func empty(v any) bool {
	switch v := plainValue(v).(type) {
	case nil:
		return true
	case string:
		return v == ""
	case bool:
		return !v
	case int64:
		return v == 0
	case float64:
		return v == 0
	case []any:
		return len(v) == 0
	case map[string]any:
		return len(v) == 0
	}
	return false
}

func sorted(l []any, by func(any) any) []any {
	l = slices.Clone(l)
	slices.SortStableFunc(l, func(a, b any) int { return compare(by(a), by(b)) })
	return l
}
