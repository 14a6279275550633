package dashboard

import (
	"bytes"
	"context"
	"embed"
	"fmt"
	"html/template"
	"net/http"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"symbio/security/visible"
)

//go:embed templates static
var embedded embed.FS

// page is one page of the dashboard.
type page struct {
	// path is a pattern of http.ServeMux, such as /agents/{id}.
	path string
	// name is that of the template, title that of the page. A page with nav is in the navigation.
	name, title string
	nav         bool
	// live pages are sent again when the community changes, to a request that accepts text/event-stream.
	live bool
	// data returns what the template shows. Its error is shown in place of the page, with the code of a
	// gRPC status. It is called for each change of a live page.
	data func(context.Context, *view) (any, error)
	// actions are what forms of the page do, by a name that is unique in the dashboard.
	actions map[string]action
}

// pages returns all pages, in the order of the navigation.
func pages() []page {
	return []page{communityPage()}
}

// view is one request for a page.
type view struct {
	*Dashboard
	Request *http.Request
	// fleet returns the nodes and agents. A stream has them already; for other requests they are fetched.
	fleet func(context.Context) (*fleet, error)
}

// layout is the data of the template that surrounds every page.
type layout struct {
	Node   string
	Nav    []page
	Page   page
	Title  string
	Notice string
	Data   any
}

// Path returns where the page is, for links.
func (p page) Path() string { return strings.TrimSuffix(p.path, "{$}") }

// Caption returns the title of the page, for links.
func (p page) Caption() string { return p.title }

// IsLive reports whether the browser is to ask for the stream of the page.
func (p page) IsLive() bool { return p.live }

// parseTemplates returns the template of each page, by its name, and "message",
// the page that says one thing.
func parseTemplates(pages []page) (map[string]*template.Template, error) {
	base, err := template.New("layout.html").Funcs(functions()).ParseFS(embedded, "templates/layout.html")
	if err != nil {
		return nil, err
	}
	all := map[string]*template.Template{}
	for _, p := range append(pages, page{name: "message"}) {
		if all[p.name], err = template.Must(base.Clone()).ParseFS(embedded, "templates/"+p.name+".html"); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// functions returns what templates of all pages may call.
func functions() template.FuncMap {
	return template.FuncMap{
		"line":   func(s string) string { return visible.Line(s, 200) },
		"short":  func(s string) string { return visible.Prefix(s, 8) },
		"money":  func(usd float64) string { return fmt.Sprintf("$%.2f", usd) },
		"number": number,
		"age":    func(t time.Time) string { return age(time.Since(t)) },
		"iso":    func(t time.Time) string { return t.UTC().Format(time.RFC3339) },
	}
}

// number returns a count with a unit: 950, 12.4k, 3.1M.
func number(n uint64) string {
	switch {
	case n >= 1_000_000:
		return fmt.Sprintf("%.1fM", float64(n)/1_000_000)
	case n >= 10_000:
		return fmt.Sprintf("%.1fk", float64(n)/1000)
	}
	return fmt.Sprint(n)
}

// age returns a duration in its largest unit, as the script does.
func age(d time.Duration) string {
	switch {
	case d < time.Minute:
		return fmt.Sprintf("%d s", max(0, int(d.Seconds())))
	case d < time.Hour:
		return fmt.Sprintf("%d min", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%d h", int(d.Hours()))
	}
	return fmt.Sprintf("%d days", int(d.Hours()/24))
}

// printable returns HTML with each character that cannot be seen as its escape.
// It works on whole pages, so that no template can forget it. Line breaks and
// tabs stay.
func printable(page []byte) []byte {
	var b strings.Builder
	for part := range strings.SplitAfterSeq(string(page), "\n") {
		text, broken := strings.CutSuffix(part, "\n")
		for i, cell := range strings.Split(text, "\t") {
			if i > 0 {
				b.WriteByte('\t')
			}
			b.WriteString(visible.Escape(cell))
		}
		if broken {
			b.WriteByte('\n')
		}
	}
	return []byte(b.String())
}

// render returns the page as HTML.
func (s *site) render(l layout) ([]byte, error) {
	l.Node = s.cfg.Name
	for _, p := range s.pages {
		if p.nav {
			l.Nav = append(l.Nav, p)
		}
	}
	var b bytes.Buffer
	err := s.templates[l.Page.name].Execute(&b, l)
	return printable(b.Bytes()), err
}

// show answers a request for a page, or for its stream.
func (s *site) show(w http.ResponseWriter, r *http.Request, p page) {
	if p.live && r.Header.Get("Accept") == "text/event-stream" {
		s.stream(w, r, p)
		return
	}
	v := &view{Dashboard: s.Dashboard, Request: r, fleet: s.fetchFleet}
	data, err := p.data(r.Context(), v)
	if err != nil {
		s.fail(w, err)
		return
	}
	s.write(w, http.StatusOK, layout{Page: p, Title: p.title, Data: data, Notice: s.access.takeNotice(r.Context().Value(sessionKey{}).(*browser))})
}

// write sends a page.
func (s *site) write(w http.ResponseWriter, code int, l layout) {
	html, err := s.render(l)
	if err != nil {
		s.cfg.Logger.Error("page of the dashboard", "page", l.Page.name, "err", err)
		http.Error(w, "the page cannot be shown: "+err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(code)
	_, _ = w.Write(html) // the browser may have gone
}

// message is the data of the template of the same name.
type message struct {
	Text string
	// Login says how a browser gets in.
	Login bool
	// Action is repeated with Fields if the person confirms it; "" = nothing is to be confirmed.
	Action string
	Fields map[string][]string
	// Back is where the person goes from here; "" = nowhere.
	Back string
}

// refuse answers with a page that says one thing.
func (s *site) refuse(w http.ResponseWriter, code int, title, text string) {
	s.write(w, code, layout{Page: page{name: "message"}, Title: title, Data: message{Text: text, Back: "/"}})
}

// refuseLogin answers with a page that says how a browser gets in.
func (s *site) refuseLogin(w http.ResponseWriter, code int, title, text string) {
	s.write(w, code, layout{Page: page{name: "message"}, Title: title, Data: message{Text: text, Login: true}})
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
	s.refuse(w, code, title, errorText(err))
}

// errorText returns an error for people, without the code of gRPC.
func errorText(err error) string {
	if s, ok := status.FromError(err); ok {
		return s.Message()
	}
	return err.Error()
}
