package scripted

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"slices"
)

func (r *run) json(v any) (string, error) {
	if weigh(v) > maxOutput {
		return "", errOutput
	}
	var b bytes.Buffer
	if err := encode(&b, v); err != nil {
		return "", err
	}
	return r.made(b.String())
}

func (r *run) newList(values ...any) ([]any, error) {
	if values == nil {
		values = []any{}
	}
	return r.list(values)
}

func (r *run) append(v any, more ...any) ([]any, error) {
	l, err := items(v)
	if err != nil {
		return nil, err
	}
	return r.list(slices.Concat(l, more))
}

func (r *run) concat(lists ...any) ([]any, error) {
	all := []any{}
	for _, v := range lists {
		l, err := items(v)
		if err != nil {
			return nil, err
		}
		if len(all)+len(l) > maxItems {
			return nil, errItems
		}
		all = append(all, l...)
	}
	return r.list(all)
}

// flatten joins a list of lists; what is not a list stays as it is.
func (r *run) flatten(v any) ([]any, error) {
	l, err := items(v)
	if err != nil {
		return nil, err
	}
	all := []any{}
	for _, e := range l {
		if inner, ok := e.([]any); ok {
			all = append(all, inner...)
		} else {
			all = append(all, e)
		}
		if len(all) > maxItems {
			return nil, errItems
		}
	}
	return r.list(all)
}

// seq lists the whole numbers from a to b, both included.
func (r *run) seq(from, to any) ([]any, error) {
	a, err := whole(from)
	if err != nil {
		return nil, err
	}
	b, err := whole(to)
	if err != nil {
		return nil, err
	}
	l := []any{}
	for ; a <= b; a++ {
		if len(l) == maxItems {
			return nil, errItems
		}
		l = append(l, a)
	}
	return r.list(l)
}

func first(v any) (any, error) {
	l, err := items(v)
	if err != nil || len(l) == 0 {
		return nil, err
	}
	return l[0], nil
}

func last(v any) (any, error) {
	l, err := items(v)
	if err != nil || len(l) == 0 {
		return nil, err
	}
	return l[len(l)-1], nil
}

// slice is the part of a list or of a text's characters from one index up to another; indexes beyond
// an end mean that end.
func (r *run) slice(v any, from int, to ...int) (any, error) {
	end := maxOutput
	if len(to) == 1 {
		end = to[0]
	} else if len(to) > 1 {
		return nil, errors.New("slice takes one or two indexes")
	}
	if s, ok := v.(string); ok {
		runes := []rune(s)
		from, end = clip(from, end, len(runes))
		return r.made(string(runes[from:end]))
	}
	l, err := items(v)
	if err != nil {
		return nil, err
	}
	from, end = clip(from, end, len(l))
	return r.list(l[from:end:end])
}

func clip(from, to, length int) (int, int) {
	from = min(max(from, 0), length)
	return from, min(max(to, from), length)
}

func (r *run) reverse(v any) ([]any, error) {
	l, err := items(v)
	if err != nil {
		return nil, err
	}
	l = slices.Clone(l)
	slices.Reverse(l)
	return r.list(l)
}

func (r *run) sort(v any) ([]any, error) { return r.sortBy(nil, v) }

func (r *run) sortBy(key, v any) ([]any, error) {
	l, err := items(v)
	if err != nil {
		return nil, err
	}
	if err := r.spend(itemWork * len(l)); err != nil {
		return nil, err
	}
	return r.list(sorted(l, func(e any) any {
		if key == nil {
			return e
		}
		return get(key, e)
	}))
}

// uniq drops items that were there before.
func (r *run) uniq(v any) ([]any, error) {
	l, err := items(v)
	if err != nil {
		return nil, err
	}
	seen := map[string]bool{}
	some := []any{}
	for _, e := range l {
		if k := text(e); !seen[k] {
			seen[k] = true
			some = append(some, e)
		}
	}
	return r.list(some)
}

// pluck lists what each item has under the key.
func (r *run) pluck(key, v any) ([]any, error) {
	l, err := items(v)
	if err != nil {
		return nil, err
	}
	some := make([]any, len(l))
	for i := range l {
		some[i] = get(key, l[i])
	}
	return r.list(some)
}

func (r *run) where(key, want, v any) ([]any, error) {
	return r.filter(v, func(e any) bool { return same(get(key, e), want) })
}

func (r *run) whereNot(key, want, v any) ([]any, error) {
	return r.filter(v, func(e any) bool { return !same(get(key, e), want) })
}

func (r *run) whereMatch(key any, pattern string, v any) ([]any, error) {
	re, err := r.regexp(pattern)
	if err != nil {
		return nil, err
	}
	return r.filter(v, func(e any) bool { return re.MatchString(text(get(key, e))) })
}

func (r *run) filter(v any, keep func(any) bool) ([]any, error) {
	l, err := items(v)
	if err != nil {
		return nil, err
	}
	some := []any{}
	for _, e := range l {
		if err := r.spend(itemWork); err != nil {
			return nil, err
		}
		if keep(e) {
			some = append(some, e)
		}
	}
	return r.list(some)
}

// groupBy lists {key, items} for each different value under the key, in the order of their first
// appearance.
func (r *run) groupBy(key, v any) ([]any, error) {
	l, err := items(v)
	if err != nil {
		return nil, err
	}
	groups := []any{}
	at := map[string]map[string]any{}
	for _, e := range l {
		k := get(key, e)
		g := at[text(k)]
		if g == nil {
			g = map[string]any{"key": k, "items": []any{}}
			at[text(k)] = g
			groups = append(groups, g)
		}
		g["items"] = append(g["items"].([]any), e)
	}
	return r.list(groups)
}

// has reports whether a list has an item, or a map a key.
func has(item, v any) (bool, error) {
	if m, ok := v.(map[string]any); ok {
		_, ok := m[text(item)]
		return ok, nil
	}
	l, err := items(v)
	return slices.ContainsFunc(l, func(e any) bool { return same(e, item) }), err
}

func (r *run) dict(pairs ...any) (map[string]any, error) {
	if len(pairs)%2 != 0 {
		return nil, errors.New("dict takes keys and values in turn")
	}
	m := map[string]any{}
	for i := 0; i < len(pairs); i += 2 {
		m[text(pairs[i])] = pairs[i+1]
	}
	return m, r.spend(itemWork * len(m))
}

// setKey is the map with one key set; the map itself stays as it is.
func (r *run) setKey(key, value, v any) (map[string]any, error) {
	return r.merge(v, map[string]any{text(key): value})
}

// merge joins maps; a later one wins.
func (r *run) merge(many ...any) (map[string]any, error) {
	all := map[string]any{}
	for _, v := range many {
		m, ok := v.(map[string]any)
		if !ok && v != nil {
			return nil, fmt.Errorf("not a map: %s", shortly(v))
		}
		if err := r.spend(itemWork * len(m)); err != nil {
			return nil, err
		}
		maps.Copy(all, m)
	}
	if len(all) > maxItems {
		return nil, errItems
	}
	return all, nil
}

func (r *run) keys(m map[string]any) ([]any, error) {
	return r.strings(slices.Sorted(maps.Keys(m)))
}

// values are a map's values in the order of its keys.
func (r *run) values(m map[string]any) ([]any, error) {
	some := make([]any, 0, len(m))
	for _, k := range slices.Sorted(maps.Keys(m)) {
		some = append(some, m[k])
	}
	return r.list(some)
}
