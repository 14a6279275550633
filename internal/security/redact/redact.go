// Package redact takes passwords, tokens and keys out of text before it is kept: in the audit log,
// in log files.
//
// The one idea: one table of the forms in which secrets are written. Of each the secret alone is
// replaced by Mark; what stands around it stays, so that a record still says what was done.
//
// It goes by form: a secret that does not look like one stays. It never hides what a shell would
// run: a value that could hold a command, such as "$(id)" or one with a blank and a semicolon,
// stays too. The functions may be called from many goroutines.
package redact

import (
	"bytes"
	"encoding/json"
	"regexp"
	"slices"
	"strings"

	"symbio/internal/security/lazyregexp"
	"symbio/internal/security/visible"
)

// Mark replaces a secret.
const Mark = "[redacted]"

const (
	// password and key match a name that ends in a word for a password, or for a key or token, such
	// as DB_PASSWORD or aws_secret_access_key. They need (?i).
	password = `[\w.-]*(?:passw(?:or)?d|passphrase|passcode|[_-]pass|[_-]pwd)`
	key      = `[\w.-]*(?:secret|token|credential|apikey|(?:api|access|secret|private|signing|encryption|master|account|auth)[_-]?key(?:[_-]base)?|amz-signature)`
	// name is such a name at the beginning of a word. A name behind $ is a use of a variable, not
	// its value.
	name = `(?i)(?:^|[^\w.$-])(?:` + password + `|` + key + `)`
	// The text behind it ends a word of a shell at the latest, so that no command is in it.
	end  = "\\s\"'`;&|<>()$\\\\"
	bare = `[^=,` + end + `][^` + end + `]*`
	// value is the secret as a shell or a program would quote it; (?P<s>…) is what is replaced.
	value = `(?P<s>"(?:[^"\\]|\\.)*"|'[^']*'|` + bare + `)`
	// spaced is what stands between a name and its value beside a plain "=": a colon, :=, => or an
	// = with blanks around it.
	spaced = `(?:\\?["'])?(?:[ \t]*(?::=|=>|:)[ \t]*|[ \t]+=[ \t]+)`
	// lines are the base64 lines and headers of a key in PEM or PGP form, also with \n written out.
	lines = `(?P<s>(?:(?:\s|\\[nr])+(?:[A-Za-z0-9+/]{40,}=*|[A-Za-z0-9+/]{2,39}={1,2}|[A-Z][A-Za-z-]+: [\w .,/-]*))+)`
)

// form is one way to write a secret.
type form struct {
	// hints make it cheap to skip a form: a text that contains none of them, in lower case, has no
	// secret of this form. nil always tries it.
	hints []string
	// re finds candidates; its group s is the secret.
	re func() *regexp.Regexp
	// is says of a value, unless it stays anyway (keep), and of the text behind it whether it is a
	// secret; nil is any that re finds.
	is func(value, after string) bool
}

// nameHints has a part of each name that password and key match.
var nameHints = []string{"pass", "pwd", "secret", "token", "credential", "key", "signature"}

// forms are tried in this order, each on the text that those before it have left. Text that is Mark
// already stays (nothing).
var forms = []form{
	{[]string{"private key"}, lazyregexp.New(`-----BEGIN [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----` + lines), nil},
	{
		[]string{"sk-", "k_live_", "k_test_", "gh", "gl", "xox", "xapp-", "akia", "asia", "aiza", "ya29.", "npm_", "pypi-", "hf_",
			"dop_v1_", "dckr_pat_", "sg.", "eyj", "age-secret", "hvs.", "sym1-", ":aa"},
		lazyregexp.New(`\b(?P<s>sk-[\w-]{16,}|[sr]k_(?:live|test)_\w{10,}|gh[pousr]_\w{16,}|github_pat_\w{20,}|gl(?:pat|dt|rt|cbt|ptt|ft|soat|imt|agent)-[\w-]{16,}|xox[a-z]-[\w-]{8,}|xapp-[\w-]{10,}|(?:AKIA|ASIA)[A-Z0-9]{16}\b|AIza[\w-]{30,}|ya29\.[\w-]{10,}|npm_\w{30,}|pypi-[\w-]{30,}|hf_\w{20,}|dop_v1_\w{32,}|dckr_pat_[\w-]{16,}|SG\.[\w-]{16,}\.[\w-]{16,}|eyJ[\w-]{8,}\.[\w-]{2,}\.[\w-]*|AGE-SECRET-KEY-1[A-Z0-9]{20,}|hvs\.[\w-]{20,}|SYM1-[A-Z0-9]{20,}-[A-Z0-9]{20,}|\d{8,10}:AA[\w-]{30,})`),
		func(v, _ string) bool { return strings.ContainsAny(v, "0123456789") },
	},
	{[]string{"://"}, lazyregexp.New(`\b[A-Za-z][A-Za-z0-9+.-]*://[^/:@` + end + `]*:(?P<s>[^/` + end + `]+)@`), every},
	{[]string{"authorization", "bearer"}, lazyregexp.New(`(?i)\b(?:authorization["']?[ \t]*[:=][ \t]*["']?(?:(?:basic|bearer|token|digest|negotiate|apikey)[ \t]+)?|bearer[ \t]+)(?P<s>[^` + end + `]{6,})`), func(v, _ string) bool { return random(v) }},
	{[]string{"cookie"}, lazyregexp.New(`(?i)\bcookie["']?[ \t]*:[ \t]*["']?(?P<s>[\w.-]+=[^` + end + `]+(?:; ?[\w.-]+=[^` + end + `]*)*)`), nil},
	{nameHints, lazyregexp.New(`(?i)(?:^|[^\w.$-])` + password + `=` + value), notCall},
	{nameHints, lazyregexp.New(`(?i)(?:^|[^\w.$-])` + key + `=` + value), func(v, after string) bool { return notCall(v, after) && !place().MatchString(v) }},
	{nameHints, lazyregexp.New(name + spaced + `(?P<s>\\"[^"\\\n]+\\"|"(?:[^"\\\n]|\\.)+"|'[^'\n]+')`), func(v, _ string) bool { return !place().MatchString(v) }},
	{nameHints, lazyregexp.New(name + spaced + `(?P<s>[^\[\]{},` + end + `]+)`), func(v, after string) bool {
		return random(v) && notCall(v, after) && !place().MatchString(v)
	}},
	{nameHints, lazyregexp.New(`(?im)(?:^|[^\w.$-])` + password + `["']?[ \t]*:[ \t]+(?P<s>[^\[\]{},` + end + `]+)$`), every},
	{nameHints, lazyregexp.New(`(?i)(?:^|[\s"'])--?(?:` + password + `|` + key + `)["']?[ \t]+` + value),
		func(v, _ string) bool { return v[0] != '-' && !place().MatchString(v) }},
	{[]string{"-u", "-user"}, lazyregexp.New(`(?:^|\s)(?:-[uU]|--(?:proxy-)?user)[ =]?["']?[^:` + end + `-][^:` + end + `]*:(?P<s>[^` + end + `]+)`),
		func(v, _ string) bool { return !group().MatchString(v) }},
	{[]string{"sshpass", "pass:", "mysql", "mariadb", "redis-cli", "login"}, lazyregexp.New(`(?:\bsshpass[ \t]+-p[ \t]*|-pass(?:in|out)?[ \t]+["']?pass:|\b(?:mysql|mariadb)\w*\b[^;&|\n]*?[ \t]-p|\bredis-cli\b[^;&|\n]*?[ \t]-a[ \t]+|\blogin\b[^;&|\n]*?[ \t]-p[ \t]+)` + value), every},
}

var (
	// secretName matches a whole name of a JSON field, or a flag, whose value is a secret.
	secretName = lazyregexp.New(`(?i)^(?:--?)?(?:` + password + `|` + key + `|(?:proxy-)?authorization|(?:set-)?cookie)$`)
	// nothing is what stands where a secret would, and is none: a variable, a placeholder, a word
	// that describes.
	nothing = lazyregexp.New(`(?i)^["'\\]*(?:$|[$<%{` + "`" + `]|\[redacted\]|id=|[*.x•]{3,}["'\\]*$|(?:true|false|null|none|nil|undefined|yes|no|on|off|string|str|text|bool|int|bytes|required|optional|hidden|redacted|prompt|stdin|env)["'\\]*$)`)
	// place is where a secret is: a file, a field.
	place = lazyregexp.New(`^["']?(?:(?:~|\.{1,2})?/[\w./@-]{0,38}|(?:~|\.{1,2})?/[\w/@-]*\.[\w./@-]*|[A-Za-z_]+(?:\.[A-Za-z_]+)+)["']?$`)
	// group is what follows a user that is not a password: docker run -u node:node, rsync -u
	// host:dir.
	group = lazyregexp.New(`^(?:\d+|[/~.].*|root|node|www-data|nobody|nogroup|nginx|postgres|staff|users|wheel|daemon)$`)
)

// random reports whether a word does not look like one of a language: it is 20 bytes or longer, has
// a digit, or mixed case inside.
func random(v string) bool {
	return len(v) >= 20 || strings.ContainsAny(v, "0123456789") || camel().MatchString(v)
}

// camel matches mixed case inside a word.
var camel = lazyregexp.New(`[a-z][A-Z]`)

// every accepts each value that keep lets through; unlike a nil form.is, keep applies.
func every(_, _ string) bool { return true }

// notCall reports whether a value in source code is not a call, as in token = newToken().
func notCall(_, after string) bool { return !strings.HasPrefix(after, "(") }

// keep reports whether a value stays: it is no secret, or it could hold what a shell runs, which a
// record must show.
func keep(v string) bool {
	return nothing().MatchString(v) || strings.Contains(v, "$(") || strings.ContainsAny(v, "`") || strings.ContainsAny(v, " \t\n") && strings.ContainsAny(v, ";&|<>\n")
}

// Text returns text with each secret replaced by Mark. Text without secrets is returned unchanged.
func Text(text string) string {
	lower := strings.ToLower(text)
	for _, f := range forms {
		if !slices.ContainsFunc(f.hints, func(h string) bool { return strings.Contains(lower, h) }) {
			continue
		}
		s := 2 * f.re().SubexpIndex("s")
		var b strings.Builder
		done := 0
		for _, m := range f.re().FindAllStringSubmatchIndex(text, -1) {
			if v := text[m[s]:m[s+1]]; f.is != nil && (keep(v) || !f.is(v, text[m[s+1]:])) {
				continue
			}
			b.WriteString(text[done:m[s]] + Mark)
			done = m[s+1]
		}
		text = b.String() + text[done:]
	}
	return text
}

// JSON returns a JSON value without the secrets in its texts, and without the texts of fields with
// a name such as "password", and of list elements behind a flag such as "--password". If it has
// none, or raw is no JSON, raw is returned unchanged. Numbers keep their spelling; the fields of an
// object come out sorted.
func JSON(raw json.RawMessage) json.RawMessage {
	var v any
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	if d.Decode(&v) != nil {
		return raw
	}
	changed := false
	v = walk(v, false, &changed)
	if !changed {
		return raw
	}
	text, err := visible.JSON(v)
	if err != nil {
		return raw
	}
	return text
}

// walk redacts the texts in a value, in place for objects and lists, and sets changed if there were
// any secrets. named says that the value's own name calls it a secret.
func walk(v any, named bool, changed *bool) any {
	switch v := v.(type) {
	case string:
		out := Text(v)
		if named && !keep(v) {
			out = Mark
		}
		*changed = *changed || out != v
		return out
	case map[string]any:
		for k, e := range v {
			v[k] = walk(e, secretName().MatchString(k), changed)
		}
	case []any:
		for i, e := range v {
			flag := ""
			if i > 0 {
				flag, _ = v[i-1].(string)
			}
			v[i] = walk(e, strings.HasPrefix(flag, "-") && secretName().MatchString(flag), changed)
		}
	}
	return v
}
