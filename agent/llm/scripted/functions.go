package scripted

import (
	"fmt"
	"path"
	"regexp"
	"strings"
	"text/template"
	"unicode/utf8"
)

// maxItems is the longest list that a function makes.
const maxItems = 1 << 20

var errItems = fmt.Errorf("a list of more than %d items", maxItems)

// functions are what templates may call; doc.go describes them. None reaches a file, the
// environment, the clock or the network.
func (r *run) functions() template.FuncMap {
	return template.FuncMap{
		"_tick": r.tick, "_enter": r.enter, "_show": r.show,
		"results": r.results, "include": r.include,

		"json": r.json, "fromJson": fromJSON, "string": r.text, "default": defaultTo,

		"add": add, "sub": sub, "mul": mul, "div": div, "mod": mod, "min": least, "max": greatest,
		"sum": sum, "round": round, "int": whole, "float": float,

		"lines": r.lines, "split": r.split, "fields": r.fields, "join": r.join, "replace": r.replace,
		"trim": strings.TrimSpace, "trimPrefix": trimPrefix, "trimSuffix": trimSuffix,
		"upper": r.upper, "lower": r.lower, "indent": r.indent, "repeat": r.repeat, "truncate": truncate,
		"count": count, "contains": contains, "hasPrefix": hasPrefix, "hasSuffix": hasSuffix, "printf": r.printf,
		"print": r.print, "println": r.println, "html": r.html, "js": r.js, "urlquery": r.urlquery, // bounded twins of the built-in ones
		"base": path.Base, "ext": path.Ext, "dir": path.Dir,

		"regexMatch": r.regexMatch, "regexFind": r.regexFind, "regexFindAll": r.regexFindAll,
		"regexGroups": r.regexGroups, "regexGroupsAll": r.regexGroupsAll, "regexReplace": r.regexReplace,

		"len": length, "list": r.newList, "append": r.append, "concat": r.concat, "flatten": r.flatten, "seq": r.seq,
		"first": first, "last": last, "slice": r.slice, "reverse": r.reverse, "sort": r.sort, "sortBy": r.sortBy,
		"uniq": r.uniq, "pluck": r.pluck, "where": r.where, "whereNot": r.whereNot, "whereMatch": r.whereMatch,
		"groupBy": r.groupBy, "has": has,

		"dict": r.dict, "get": get, "set": r.setKey, "merge": r.merge, "keys": r.keys, "values": r.values,
	}
}

// The text functions take the text last, so that they can stand in a pipeline.

func (r *run) lines(s string) ([]any, error) {
	s = strings.TrimSuffix(strings.ReplaceAll(s, "\r\n", "\n"), "\n")
	if s == "" {
		return r.list([]any{})
	}
	return r.split("\n", s)
}

func (r *run) split(sep, s string) ([]any, error) {
	if strings.Count(s, sep) >= maxItems {
		return nil, errItems
	}
	return r.strings(strings.Split(s, sep))
}

func (r *run) fields(s string) ([]any, error) { return r.strings(strings.Fields(s)) }

func (r *run) strings(l []string) ([]any, error) {
	some := make([]any, len(l))
	for i := range l {
		some[i] = l[i]
	}
	return r.list(some)
}

func (r *run) join(sep string, v any) (string, error) {
	l, err := items(v)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	for i, item := range l {
		if i > 0 {
			b.WriteString(sep)
		}
		t, err := r.text(item)
		if err != nil {
			return "", err
		}
		b.WriteString(t)
		if b.Len() > maxOutput {
			return "", errOutput
		}
	}
	return r.made(b.String())
}

func (r *run) replace(old, repl, s string) (string, error) {
	if grown := len(s) + strings.Count(s, old)*(len(repl)-len(old)); grown > maxOutput {
		return "", errOutput
	}
	return r.made(strings.ReplaceAll(s, old, repl))
}

func trimPrefix(prefix, s string) string      { return strings.TrimPrefix(s, prefix) }
func trimSuffix(suffix, s string) string      { return strings.TrimSuffix(s, suffix) }
func contains(sub, s string) bool             { return strings.Contains(s, sub) }
func hasPrefix(prefix, s string) bool         { return strings.HasPrefix(s, prefix) }
func hasSuffix(suffix, s string) bool         { return strings.HasSuffix(s, suffix) }
func count(sub, s string) int                 { return strings.Count(s, sub) }
func (r *run) upper(s string) (string, error) { return r.made(strings.ToUpper(s)) }
func (r *run) lower(s string) (string, error) { return r.made(strings.ToLower(s)) }

// indent puts n spaces before each line that is not empty.
func (r *run) indent(n int, s string) (string, error) {
	if n < 0 || n > 100 {
		return "", fmt.Errorf("indent takes 0 to 100 spaces, got %d", n)
	}
	if len(s)+strings.Count(s, "\n")*n > maxOutput {
		return "", errOutput
	}
	lines := strings.Split(s, "\n")
	for i := range lines {
		if lines[i] != "" {
			lines[i] = strings.Repeat(" ", n) + lines[i]
		}
	}
	return r.made(strings.Join(lines, "\n"))
}

func (r *run) repeat(n int, s string) (string, error) {
	if n < 0 {
		return "", fmt.Errorf("repeat takes a count, got %d", n)
	}
	if len(s) > 0 && n > maxOutput/len(s) {
		return "", errOutput
	}
	return r.made(strings.Repeat(s, n))
}

// truncate keeps the first n characters, and says with a mark when there were more.
func truncate(n int, s string) string {
	if n < 0 || utf8.RuneCountInString(s) <= n {
		return s
	}
	return string([]rune(s)[:n]) + "…"
}

// wide finds widths that make fmt write a lot.
var wide = regexp.MustCompile(`%[^%a-zA-Z]*(\*|\d{4})`)

func (r *run) printf(format string, values ...any) (string, error) {
	if len(format) > 64<<10 || wide.MatchString(format) {
		return "", fmt.Errorf("printf: the format is too long or a width is over 999: %s", quote(format))
	}
	longest := 0
	for i := range values {
		longest = max(longest, weigh(values[i]))
	}
	if strings.Count(format, "%")*longest > 16*maxOutput { // one value may be named by many verbs
		return "", errOutput
	}
	for i := range values {
		switch v := values[i].(type) {
		case []any, map[string]any:
			t, err := r.text(v)
			if err != nil {
				return "", err
			}
			values[i] = t
		}
	}
	return r.made(fmt.Sprintf(format, values...))
}

func (r *run) print(values ...any) (string, error)   { return r.join("", values) }
func (r *run) println(values ...any) (string, error) { return r.join(" ", append(values, "\n")) }
func (r *run) html(s string) (string, error)         { return r.made(template.HTMLEscapeString(s)) }
func (r *run) js(s string) (string, error)           { return r.made(template.JSEscapeString(s)) }
func (r *run) urlquery(s string) (string, error)     { return r.made(template.URLQueryEscaper(s)) }

func (r *run) regexp(pattern string) (*regexp.Regexp, error) {
	if re := r.regexps[pattern]; re != nil {
		return re, nil
	}
	if len(pattern) > 1000 { // matching costs the pattern's length times the text's
		return nil, fmt.Errorf("a regular expression of %d bytes is too long", len(pattern))
	}
	re, err := regexp.Compile(pattern)
	if err != nil {
		return nil, err
	}
	if r.regexps == nil {
		r.regexps = map[string]*regexp.Regexp{}
	}
	r.regexps[pattern] = re
	return re, r.spend(100 * len(pattern))
}

func (r *run) regexMatch(pattern, s string) (bool, error) {
	re, err := r.regexp(pattern)
	return err == nil && re.MatchString(s), err
}

func (r *run) regexFind(pattern, s string) (string, error) {
	re, err := r.regexp(pattern)
	if err != nil {
		return "", err
	}
	return re.FindString(s), r.spend(len(s))
}

func (r *run) regexFindAll(pattern, s string) ([]any, error) {
	re, err := r.regexp(pattern)
	if err != nil {
		return nil, err
	}
	if err := r.spend(len(s)); err != nil {
		return nil, err
	}
	return r.strings(re.FindAllString(s, maxItems+1))
}

func (r *run) regexGroups(pattern, s string) (map[string]any, error) {
	re, err := r.regexp(pattern)
	if err != nil {
		return nil, err
	}
	return groupsOf(re, re.FindStringSubmatch(s)), r.spend(len(s))
}

func (r *run) regexGroupsAll(pattern, s string) ([]any, error) {
	re, err := r.regexp(pattern)
	if err != nil {
		return nil, err
	}
	found := re.FindAllStringSubmatch(s, maxItems+1)
	all := make([]any, len(found))
	for i := range found {
		if err := r.spend(64 * len(found[i])); err != nil {
			return nil, err
		}
		all[i] = groupsOf(re, found[i])
	}
	return r.list(all)
}

// groupsOf are the groups of a match by number and by name; none when there was no match.
func groupsOf(re *regexp.Regexp, found []string) map[string]any {
	groups := map[string]any{}
	for i := range found {
		groups[fmt.Sprint(i)] = found[i]
		if name := re.SubexpNames()[i]; name != "" {
			groups[name] = found[i]
		}
	}
	return groups
}

func (r *run) regexReplace(pattern, repl, s string) (string, error) {
	re, err := r.regexp(pattern)
	if err != nil {
		return "", err
	}
	var out []byte
	end := 0
	for _, at := range re.FindAllStringSubmatchIndex(s, maxItems) {
		out = append(out, s[end:at[0]]...)
		out = re.ExpandString(out, repl, s, at)
		end = at[1]
		if len(out) > maxOutput {
			return "", errOutput
		}
		if err := r.spend(len(repl)); err != nil {
			return "", err
		}
	}
	return r.made(string(append(out, s[end:]...)))
}
