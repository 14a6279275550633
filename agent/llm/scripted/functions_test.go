package scripted_test

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"regexp"
	"strings"
	"sync"
	"testing"

	"symbio/agent/llm"
	"symbio/agent/llm/scripted"
)

// render renders one template over a conversation with three results.
func render(t testing.TB, ctx context.Context, template string) (string, error) {
	t.Helper()
	quoted, err := json.Marshal(template)
	if err != nil {
		t.Fatal(err)
	}
	s, err := scripted.Parse("test", []byte("define: {double: '{{ mul 2 . }}', again: '{{ include \"again\" . }}', down: '{{ template \"down\" . }}'}\nturns: [{text: "+string(quoted)+"}]"))
	if err != nil {
		return "", err
	}
	got, err := llm.Collect(scripted.New(s).Stream(ctx, conversation), nil)
	return got.Message.Text, err
}

var conversation = llm.Request{Tools: []llm.ToolSpec{{Name: "Grep"}}, Messages: []llm.Message{
	user("count it"),
	calls(llm.ToolCall{ID: "1", Name: "Grep", Args: json.RawMessage(`{"path":"a/x.go","deep":{"n":1}}`)}, llm.ToolCall{ID: "2", Name: "Grep", Args: json.RawMessage(`{"path":"b/y.go"}`)}),
	results(llm.ToolResult{CallID: "1", Name: "Grep", Text: "a.go: 12\nb.go: 30\n"}, llm.ToolResult{CallID: "2", Name: "Grep", Text: "no", IsError: true}),
	calls(llm.ToolCall{ID: "3", Name: "Read", Args: json.RawMessage(`"broken"`)}),
	results(llm.ToolResult{CallID: "3", Name: "Read", Text: `[{"n":3,"k":"x"},{"n":10,"k":"y"},{"n":2,"k":"x"}]`}),
}}

var functionCases = []struct{ template, want string }{
	{`{{ json (dict "a" (list 1 2.5 "x<" true)) }}`, `{"a":[1,2.5,"x<",true]}`},
	{`{{ (fromJson "{\"a\": [1, 2.5, 12345678901234567]}").a }}`, `[1,2.5,12345678901234567]`},
	{`{{ string (list 1) }}{{ string 1.50 }}`, `[1]1.5`},
	{`{{ default "x" "" }}{{ default "x" "y" }}{{ default 1 0 }}{{ default "n" (first (list)) }}`, `xy1n`},
	{`{{ get "none" (dict) }}|{{ list }}|{{ dict }}`, `|[]|{}`},

	{`{{ add 1 2 3 }} {{ add 1 0.5 }} {{ add "40" 2 }} {{ sub 1 3 }} {{ mul 2 3 4 }}`, `6 1.5 42 -2 24`},
	{`{{ div 7 2 }} {{ div 7.0 2 }} {{ mod 7 3 }} {{ mod 7 -1 }}`, `3 3.5 1 0`},
	{`{{ min 3 1 2 }} {{ max (list 3 1.5 2) }} {{ sum (list 1 2 "3") }} {{ sum (list) }}`, `1 3 6 0`},
	{`{{ round 1 2.25 }} {{ round 0 2.5 }} {{ int 2.9 }} {{ int "7" }} {{ float 3 }} {{ div (mul 100 1) 3 }}%`, `2.3 3 2 7 3 33%`},
	{`{{ mul 1000000 1000000.5 }}`, `1000000500000`},

	{`{{ lines "a\r\nb\n\nc\n" | json }} {{ lines "" | len }} {{ lines "a" | len }}`, `["a","b","","c"] 0 1`},
	{`{{ split "," "a,b,,c" }} {{ fields " a  b " }} {{ join "-" (list 1 "a" 2.5) }}`, `["a","b","","c"] ["a","b"] 1-a-2.5`},
	{`{{ replace "a" "bb" "aXa" }} {{ trim " x " }}. {{ trimPrefix "a" "ab" }} {{ trimSuffix ".go" "x.go" }}`, `bbXbb x. b x`},
	{`{{ upper "aä" }} {{ lower "AÄ" }} {{ indent 2 "a\n\nb" }} {{ repeat 3 "ab" }} {{ truncate 2 "äöü" }} {{ truncate 3 "äöü" }}`, "AÄ aä   a\n\n  b ababab äö… äöü"},
	{`{{ count "a" "banana" }} {{ printf "%03d|%-4s|%.1f|%s|%v" 7 "x" 2.55 (list 1) true }}`, `3 007|x   |2.5|[1]|true`},
	{`{{ contains "b" "abc" }} {{ hasPrefix "a" "abc" }} {{ hasSuffix "a" "abc" }}`, `true true false`},
	{`{{ base "a/b.go" }} {{ ext "a/b.go" }} {{ dir "a/b.go" }} {{ print "a" 1 "b" }}`, `b.go .go a a1b`},

	{`{{ regexMatch "^a" "ab" }} {{ regexFind "[0-9]+" "a12b3" }} {{ regexFind "z" "a" }}. {{ regexFindAll "[0-9]+" "a12b3" }}`, `true 12 . ["12","3"]`},
	{`{{ (regexGroups "(?P<k>[a-z]+)=([0-9]+)" "x ab=7") | json }} {{ regexGroups "z" "a" }}`, `{"0":"ab=7","1":"ab","2":"7","k":"ab"} {}`},
	{`{{ regexGroupsAll "(?P<k>[a-z])" "ab" | pluck "k" }} {{ regexReplace "([a-z])([0-9])" "$2${1}" "a1 b2" }}`, `["a","b"] 1a 2b`},

	{`{{ append (list 1) 2 3 }} {{ concat (list 1) (list 2 3) }} {{ flatten (list 1 (list 2 3) (list)) }} {{ seq 2 4 }} {{ seq 4 2 }}`, `[1,2,3] [1,2,3] [1,2,3] [2,3,4] []`},
	{`{{ $l := list 1 }}{{ $a := append $l 2 }}{{ $b := append $l 3 }}{{ $l }}{{ $a }}{{ $b }}`, `[1][1,2][1,3]`},
	{`{{ first (list 1 2) }}{{ last (list 1 2) }} {{ slice (seq 1 5) 1 3 }} {{ slice (seq 1 3) 2 99 }} {{ slice "äöü" 1 }} {{ slice (seq 1 3) 9 }}`, `12 [2,3] [3] öü []`},
	{`{{ reverse (list 1 2 3) }} {{ sort (list 10 9 2.5) }} {{ sort (list "b" "a" "10" "9") }} {{ uniq (list 1 2 1 "1") }}`, `[3,2,1] [2.5,9,10] ["10","9","a","b"] [1,2]`},
	{`{{ $l := list 3 1 2 }}{{ $s := sort $l }}{{ $l }}`, `[3,1,2]`},
	{`{{ has 2 (list 1 2) }} {{ has "a" (dict "a" 1) }} {{ has "b" (list) }} {{ len (list 1 2) }} {{ len "ab" }} {{ len (dict "a" 1) }}`, `true true false 2 2 1`},

	{`{{ keys (dict "b" 1 "a" 2) }} {{ values (dict "b" 1 "a" 2) }} {{ $d := dict "a" 1 }}{{ set "b" 2 $d }} {{ $d }} {{ merge $d (dict "a" 9) }}`, `["a","b"] [2,1] {"a":1,"b":2} {"a":1} {"a":9}`},
	{`{{ get "a.b.1" (dict "a" (dict "b" (list 1 2))) }} {{ get "a.go" (dict "a.go" 5) }} {{ get 0 (list 7) }}`, `2 5 7`},

	{`{{ len (results) }} {{ len (results "Grep") }} {{ len (results "Read" "Grep") }} {{ len (results "None") }}`, `3 2 3 0`},
	{`{{ results "Grep" | where "failed" false | pluck "args.path" }} {{ results | pluck "tool" | uniq }}`, `["a/x.go"] ["Grep","Read"]`},
	{`{{ (first .Results).args }} {{ (first .Results).id }} {{ .Turn }} {{ .User }} {{ .Tools }}`, `broken 3 2 count it ["Grep"]`},
	{`{{ $v := fromJson (first .Results).text }}{{ range sortBy "n" $v }}{{ .n }} {{ end }}{{ range groupBy "k" $v }}{{ .key }}={{ sum (pluck "n" .items) }} {{ end }}`, `2 3 10 x=5 y=10 `},
	{`{{ $v := fromJson (first .Results).text }}{{ where "k" "x" $v | len }}{{ whereNot "k" "x" $v | len }}{{ whereMatch "k" "^[xy]$" $v | len }}{{ where "n" 10 $v | len }}`, `2131`},
	{`{{ include "double" 21 }} {{ template "double" 4 }}`, `42 8`},
	{`{{ with .Match }}x{{ else }}none{{ end }} {{ if gt (len .Tools) 0 }}yes{{ end }} {{ range $i, $t := .Tools }}{{ $i }}{{ $t }}{{ end }}`, `none yes 0Grep`},
	{"{{- /* a comment */ -}} x ", "x "},
}

func TestFunctionsDoTheirWork(t *testing.T) {
	for _, c := range functionCases {
		if got, err := render(t, t.Context(), c.template); err != nil || got != c.want {
			t.Errorf("%s\n got %q, %v\nwant %q", c.template, got, err, c.want)
		}
	}
}

func TestFunctionsRefuseWhatMakesNoSense(t *testing.T) {
	for template, want := range map[string]string{
		`{{ add 9223372036854775807 1 }}`:                   "too large",
		`{{ sub -9223372036854775807 2 }}`:                  "too large",
		`{{ mul 9223372036854775807 2 }}`:                   "too large",
		`{{ mul 1e308 10.0 }}`:                              "too large",
		`{{ add 1 "x" }}`:                                   "not a number",
		`{{ mod 1 0 }}`:                                     "division by",
		`{{ min }}`:                                         "no numbers",
		`{{ sum "x" }}`:                                     "not a list",
		`{{ fromJson "{} {}" }}`:                            "not JSON",
		`{{ fromJson "" }}`:                                 "not JSON",
		`{{ fromJson "1e999" }}`:                            "not a number",
		`{{ dict "a" }}`:                                    "keys and values",
		`{{ merge 1 }}`:                                     "not a map",
		`{{ regexFind "(" "a" }}`:                           "missing closing",
		`{{ round 99 1 }}`:                                  "decimals",
		`{{ indent -1 "a" }}`:                               "spaces",
		`{{ repeat -1 "a" }}`:                               "count",
		`{{ include "none" 1 }}`:                            `"none"`,
		`{{ int 1e300 }}`:                                   "not a whole number",
		`{{ .Nothing }}`:                                    "can't evaluate field Nothing",
		`{{ regexFind (repeat 2000 "a") "a" }}`:             "too long",
		`{{ printf "%99999d" 1 }}{{ printf "%*d" 9999 1 }}`: "width",
	} {
		if got, err := render(t, t.Context(), template); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %q, %v; want an error with %q", template, got, err, want)
		}
	}
}

func TestTemplatesAreBounded(t *testing.T) {
	for name, c := range map[string]struct{ template, want string }{
		"output":             {`{{ range seq 1 100 }}{{ repeat 100000 "x" }}{{ end }}`, "rendered more than"},
		"a long string":      {`{{ repeat 5000000 "x" }}`, "rendered more than"},
		"replace":            {`{{ replace "x" (repeat 3000 "y") (repeat 3000 "x") }}`, "rendered more than"},
		"regexReplace":       {`{{ regexReplace "x" (repeat 3000 "y") (repeat 3000 "x") }}`, "rendered more than"},
		"indent":             {`{{ indent 100 (repeat 100000 "x\n") }}`, "rendered more than"},
		"printf":             {`{{ printf (repeat 1000 "%[1]s") (repeat 1000000 "x") }}`, "rendered more than"},
		"print":              {`{{ $s := repeat 4000000 "x" }}{{ print $s $s }}`, "rendered more than"},
		"a list of one":      {`{{ $s := repeat 1000000 "x" }}{{ $l := list $s $s $s }}{{ $m := list $l $l $l }}{{ list $m $m $m }}`, "rendered more than"},
		"its json":           {`{{ $s := repeat 1000000 "x" }}{{ $l := list $s $s $s }}{{ $m := list $l $l $l }}{{ len (json (list $m $m $m)) }}`, "rendered more than"},
		"joined":             {`{{ $s := repeat 1000000 "x" }}{{ join "," (list $s $s $s $s $s) }}`, "rendered more than"},
		"a long list":        {`{{ seq 1 10000000 }}`, "a list of more than"},
		"split":              {`{{ split "" (repeat 3000000 "x") }}`, "a list of more than"},
		"silent loops":       {`{{ $s := seq 1 1000 }}{{ range $s }}{{ range $s }}{{ range $s }}{{ end }}{{ end }}{{ end }}`, "does too much"},
		"a loop over a int":  {`{{ range 1000000000 }}{{ end }}`, "does too much"},
		"many strings":       {`{{ range seq 1 100000 }}{{ $x := repeat 100000 "x" }}{{ end }}`, "does too much"},
		"include in itself":  {`{{ include "again" 1 }}`, "nested"},
		"template in itself": {`{{ template "down" 1 }}`, "does too much"},
	} {
		t.Run(name, func(t *testing.T) {
			if got, err := render(t, t.Context(), c.template); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %d bytes, %.300v; want an error with %q", len(got), err, c.want)
			}
		})
	}
}

func TestTemplatesStopWithTheContext(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	stop()
	_, err := render(t, ctx, `{{ range 1000000000 }}{{ end }}`)
	if !errors.Is(err, context.Canceled) {
		t.Errorf("error = %v, want canceled", err)
	}
}

func TestOneModelServesManyConversationsAtOnce(t *testing.T) {
	m := parse(t, survey)
	var wg sync.WaitGroup
	for range 50 {
		wg.Go(func() {
			got, err := llm.Collect(m.Stream(t.Context(), llm.Request{
				Tools:    []llm.ToolSpec{{Name: "Glob"}},
				Messages: []llm.Message{user("survey x"), calls(), results(llm.ToolResult{Name: "Glob", Text: "a\nb\nc"})},
			}), nil)
			if err != nil || len(got.Message.Calls) != 3 {
				t.Errorf("got %d calls, %v", len(got.Message.Calls), err)
			}
		})
	}
	wg.Wait()
}

// TestDocumentationNamesEveryFunction keeps doc.go's list whole.
func TestDocumentationNamesEveryFunction(t *testing.T) {
	doc, err := os.ReadFile("doc.go")
	if err != nil {
		t.Fatal(err)
	}
	code, err := os.ReadFile("functions.go")
	if err != nil {
		t.Fatal(err)
	}
	table, _, _ := strings.Cut(string(code), "// bounded twins")
	for _, name := range regexp.MustCompile(`"([a-zA-Z]+)":`).FindAllStringSubmatch(table, -1) {
		switch name[1] {
		case "println", "html", "js", "urlquery":
			continue
		}
		if !regexp.MustCompile(`(?m)^//.*\b` + name[1] + `\b`).Match(doc) {
			t.Errorf("doc.go does not name the function %s", name[1])
		}
		if !strings.Contains(tested(), name[1]+" ") {
			t.Errorf("no test calls %s", name[1])
		}
	}
}

// TestDocumentedFileIsAScript keeps doc.go's example true.
func TestDocumentedFileIsAScript(t *testing.T) {
	doc, err := os.ReadFile("doc.go")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(doc), "// # The file\n//\n")
	file, _, found := strings.Cut(rest, "\n//\n// Regular expressions")
	if !found {
		t.Fatal("the example is not where it was")
	}
	s, err := scripted.Parse("doc", []byte(strings.ReplaceAll(file, "//\t", "")))
	if err != nil || s.Name() != "survey" {
		t.Errorf("the documented file: %v, %v", s, err)
	}
}

func tested() string {
	var all strings.Builder
	for _, c := range functionCases {
		all.WriteString(c.template)
	}
	return all.String()
}
