package dashboard

import (
	"bytes"
	"context"
	"embed"
	"fmt"
	"html/template"
	"math"
	"net/http"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"symbio/agent/budget"
	"symbio/internal/agent/node/fleet"
	"symbio/internal/security/lazyregexp"
	"symbio/internal/security/visible"
)

//go:embed templates static
var embedded embed.FS

// page is one page of the dashboard. Its fields are exported for templates.
type page struct {
	// Path is a pattern of http.ServeMux, such as /agents/{id}.
	Path string
	// Name is the template's name, Title the page's unless its data has a Heading. A page with Nav is in the navigation.
	Name, Title string
	Nav         bool
	// Live pages are sent again when the community changes, to a request that accepts text/event-stream.
	Live bool
	// Data returns what the template shows. Its error is shown in place of the page, with the code of a
	// gRPC status. It is called for each change of a live page.
	Data func(context.Context, *view) (any, error)
	// Actions are what forms of the page do, by name.
	Actions map[string]action
}

// pages returns all pages, in the order of the navigation.
func pages() []page {
	return []page{communityPage(), agentPage(), approvalsPage(), sessionsPage(), sessionPage(), skillsPage(), proposalPage(), nodesPage(), costPage(), auditPage()}
}

// view is one request for a page.
type view struct {
	*Dashboard
	Request *http.Request
	// fleet returns the nodes and agents. A stream has them already; for other requests they are fetched.
	fleet func(context.Context) (*fleet.Overview, error)
}

// fetchFleet asks the node for the community as it is now.
func (d *Dashboard) fetchFleet(ctx context.Context) (*fleet.Overview, error) {
	return fleet.Fetch(ctx, d.cfg.Client)
}

// layout is the data of the template that surrounds every page.
type layout struct {
	Node   string
	Pages  []page
	Page   page
	Title  string
	Notice string
	Data   any
}

// parseTemplates returns the template of each page, by its name, and "message",
// the page that says one thing.
func parseTemplates(pages []page) (map[string]*template.Template, error) {
	base, err := template.New("layout.html").Funcs(template.FuncMap{
		"line":  func(s string) string { return visible.Line(s, 200) },
		"money": func(usd float64) string { return fmt.Sprintf("$%.2f", usd) },
		"kilo":  func(n uint64) string { return budget.Rounded(int64(min(n, math.MaxInt64))) },
		"clock": clock,
	}).ParseFS(embedded, "templates/layout.html")
	all := map[string]*template.Template{}
	for _, p := range append(pages, page{Name: "message"}) {
		if err == nil {
			all[p.Name], err = template.Must(base.Clone()).ParseFS(embedded, "templates/"+p.Name+".html")
		}
	}
	return all, err
}

// clock returns the time of day, with the date if that is another day; "" for
// none.
func clock(at time.Time) string {
	switch at = at.Local(); {
	case at.Unix() <= 0:
		return ""
	case at.Format(time.DateOnly) != time.Now().Format(time.DateOnly):
		return at.Format(time.DateTime)
	default:
		return at.Format(time.TimeOnly)
	}
}

// printable returns HTML with each character that cannot be seen as its escape.
// It works on whole pages, so that no template can forget it. Line breaks and
// tabs stay.
func printable(page []byte) []byte {
	var b bytes.Buffer
	for _, r := range string(page) {
		if r == '\n' || r == '\t' || visible.Rune(r) {
			b.WriteRune(r)
		} else {
			b.WriteString(visible.Escape(string(r)))
		}
	}
	return b.Bytes()
}

// render returns a page as HTML. form is what its forms have that change
// something; "" = what they have already.
func (s *site) render(l layout, form string) ([]byte, error) {
	l.Node, l.Pages = s.cfg.Name, s.pages
	var b bytes.Buffer
	err := s.templates[l.Page.Name].Execute(&b, l)
	html := b.Bytes()
	if form != "" { // in whole pages, so that no template can forget it
		html = posts().ReplaceAll(html, []byte(`$0<input type="hidden" name="form" value="`+form+`">`))
	}
	return printable(html), err
}

// posts are the forms that change something. Text of others cannot be one: templates escape it.
var posts = lazyregexp.New(`<form method="post"[^>]*>`)

// version returns the page as it is now. done is the action that was done on it.
func (s *site) version(ctx context.Context, v *view, p page) ([]byte, error) {
	data, err := p.Data(ctx, v)
	if err != nil {
		return nil, err
	}
	l := layout{Page: p, Title: p.Title, Data: data, Notice: p.Actions[v.Request.FormValue("done")].done}
	if of, ok := data.(interface{ Heading() string }); ok {
		l.Title = of.Heading()
	}
	return s.render(l, sessionIn(ctx).form)
}

// show answers a request for a page, or for its stream.
func (s *site) show(w http.ResponseWriter, r *http.Request, p page) {
	if p.Live && r.Header.Get("Accept") == "text/event-stream" {
		s.stream(w, r, p)
		return
	}
	html, err := s.version(r.Context(), &view{s.Dashboard, r, s.fetchFleet}, p)
	if err != nil {
		s.fail(w, err)
		return
	}
	_, _ = w.Write(html) // the browser may have gone
}

// message is the data of the template of the same name.
type message struct {
	Text string
	// Login adds how a browser gets in.
	Login bool
	// Fields are the fields of a form that is posted again if the person confirms it; nil = nothing is to be confirmed.
	Fields map[string][]string
	// Back is where the person goes from here; "" = nowhere.
	Back string
}

// say answers with a page that says one thing.
func (s *site) say(w http.ResponseWriter, code int, title string, m message) {
	html, err := s.render(layout{Page: page{Name: "message"}, Title: title, Data: m}, "")
	if err != nil {
		s.cfg.Logger.Error("page of the dashboard", "err", err)
	}
	w.WriteHeader(code)
	_, _ = w.Write(html) // the browser may have gone
}

// fail answers with the page of an error.
func (s *site) fail(w http.ResponseWriter, err error) {
	code, title := http.StatusInternalServerError, "This did not work"
	switch status.Code(err) {
	case codes.NotFound:
		code, title = http.StatusNotFound, "This does not exist any more"
	case codes.PermissionDenied:
		code, title = http.StatusForbidden, "This is not permitted"
	case codes.Unavailable, codes.DeadlineExceeded:
		code, title = http.StatusServiceUnavailable, "There is no answer"
	}
	s.say(w, code, title, message{Text: status.Convert(err).Message(), Back: "/"})
}

// Link returns the path of the page without what only a pattern has.
func (p page) Link() string { return strings.TrimSuffix(p.Path, "{$}") }
