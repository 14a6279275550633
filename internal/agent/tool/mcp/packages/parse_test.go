package packages_test

import (
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"symbio/internal/agent/tool/mcp/packages"
)

func TestParse(t *testing.T) {
	type result struct {
		Package packages.Package
		Rest    []string
		Err     string
	}
	npm := func(name, version, program string) packages.Package {
		return packages.Package{Manager: packages.NPM, Name: name, Version: version, Program: program}
	}
	uv := func(name, version, program string) packages.Package {
		return packages.Package{Manager: packages.UV, Name: name, Version: version, Program: program}
	}
	for line, want := range map[string]result{
		"npx -y @modelcontextprotocol/server-everything":   {npm("@modelcontextprotocol/server-everything", "", ""), []string{}, ""},
		"/usr/bin/npx --yes a@1.2.3 -y --port=1 https://x": {npm("a", "1.2.3", ""), []string{"-y", "--port=1", "https://x"}, ""},
		"npx @a/b@latest .":           {npm("@a/b", "", ""), []string{"."}, ""},
		"npx @a/b@^1.0 -- x":          {npm("@a/b", "^1.0", ""), []string{"--", "x"}, ""},
		"npx -y -p @a/b@next prog -x": {npm("@a/b", "next", "prog"), []string{"-x"}, ""},
		"npx --package=b -- prog":     {npm("b", "", "prog"), []string{}, ""},
		"bunx --bun a":                {npm("a", "", ""), []string{}, ""},
		"bun x a":                     {npm("a", "", ""), []string{}, ""},
		"pnpm dlx a":                  {npm("a", "", ""), []string{}, ""},
		"yarn dlx a b":                {npm("a", "", ""), []string{"b"}, ""},
		"uvx mcp-server-time --local-timezone=UTC": {uv("mcp-server-time", "", ""), []string{"--local-timezone=UTC"}, ""},
		"uvx a[b,c]@1.2":                         {uv("a[b,c]", "1.2", ""), []string{}, ""},
		"uvx a@latest":                           {uv("a", "", ""), []string{}, ""},
		"uvx --from a>=1,<2 prog":                {uv("a", ">=1,<2", "prog"), []string{}, ""},
		"uv tool run a":                          {uv("a", "", ""), []string{}, ""},
		"pipx run --spec a==1.0 prog x":          {uv("a", "==1.0", "prog"), []string{"x"}, ""},
		"node server.js":                         {},
		"./npx a":                                {},
		"uv run server.py":                       {},
		"bun server.ts":                          {},
		"npx":                                    {Err: "no package is named"},
		"npx -y --":                              {Err: "no package is named"},
		"npx -p a":                               {Err: "no package is named"},
		"npx --package= a":                       {Err: "--package= is not understood"},
		"npx -p a -p b prog":                     {Err: "-p is not understood"},
		"npx -c echo":                            {Err: "-c is not understood"},
		"npx --registry=http://x a":              {Err: "--registry=http://x is not understood"},
		"uvx --with b a":                         {Err: "--with is not understood"},
		"uvx --index-url http://x a":             {Err: "--index-url is not understood"},
		"npx ./a":                                {Err: "not the name"},
		"npx ../a":                               {Err: "not the name"},
		"npx /a":                                 {Err: "not the name"},
		"npx a/b":                                {Err: "not the name"},
		"npx @a/../b":                            {Err: "not the name"},
		"npx @a":                                 {Err: "not the name"},
		"npx https://example.com/a.tgz":          {Err: "not the name"},
		"npx github:a/b":                         {Err: "not the name"},
		"npx a@npm:b@1":                          {Err: "not the name"},
		"npx a@file:..":                          {Err: "not the name"},
		"npx a@-g":                               {Err: "not the name"},
		"npx -p a ../prog":                       {Err: "not the name"},
		"npx -p --global a":                      {Err: "not the name"},
		"npx \u0430":                             {Err: "not the name"},
		"uvx a@main":                             {Err: "not the name"},
		"uvx a@git+https://example.com/a":        {Err: "not the name"},
		"uvx --from git+https://example.com/a a": {Err: "not the name"},
		"uvx a\n-r/etc/passwd":                   {Err: "not the name"},
		"uvx a==1\n--index-url=http://x":         {Err: "not the name"},
		"npx " + strings.Repeat("a", 301):        {Err: "not the name"},
	} {
		words := strings.Split(line, " ")
		p, rest, err := packages.Parse(words[0], words[1:])
		got := result{p, rest, ""}
		if err != nil && want.Err != "" && strings.Contains(err.Error(), want.Err) {
			got.Err = want.Err
		} else if err != nil {
			got.Err = err.Error()
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("%q (-want +got):\n%s", line, d)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, line := range []string{"npx -y @a/b@1.0 x", "uvx --from a[b]>=1,<2 prog", "pipx run --spec a b", "npx -p ../a b", "uvx a\n-r x"} {
		f.Add(line)
	}
	safe := regexp.MustCompile(`^(@[A-Za-z0-9][A-Za-z0-9_.-]*/)?[A-Za-z0-9][A-Za-z0-9_.,[\]-]*$`)
	f.Fuzz(func(t *testing.T, line string) {
		words := strings.Split(line, " ")
		p, rest, err := packages.Parse(words[0], words[1:])
		if err != nil || p.Manager == "" {
			if p.Manager != "" || rest != nil {
				t.Errorf("%q: %+v, %q beside %v", line, p, rest, err)
			}
			return
		}
		if !safe.MatchString(p.Name) || strings.ContainsAny(p.Version+p.Program, "\x00\n\r \\/:") || strings.HasPrefix(p.Version, "-") || strings.HasPrefix(p.Program, "-") || len(rest) >= len(words) {
			t.Errorf("%q: %+v, %q", line, p, rest)
		}
	})
}
