//go:build system && linux

package dashboard_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"symbio/internal/community/waittest"

	"symbio/cmd/symbio/symbiotest"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

// browser is a tab of a headless Chromium. It collects what must not happen on any page: dialogs, exceptions,
// errors on the console and violations of the Content-Security-Policy.
type browser struct {
	t   *testing.T
	ctx context.Context

	mu     sync.Mutex
	faults []string // guarded by mu
}

// newBrowser starts a browser, which ends with the test. Without Chromium the test is skipped.
func newBrowser(t *testing.T) *browser {
	t.Helper()
	path := ""
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if found, err := exec.LookPath(name); err == nil {
			path = found
			break
		}
	}
	if path == "" {
		t.Skip("the dashboard is tested with a real browser: chromium is not installed")
	}
	// The sandbox does not start for root. The name evil.test is of a site that leads to this machine.
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(path), chromedp.NoSandbox, chromedp.Flag("host-resolver-rules", "MAP evil.test 127.0.0.1"))
	return newTab(t, waittest.Context(t), chromedp.WithAllocatorOptions(options...), chromedp.WithErrorf(func(string, ...any) {})) // of events that are newer than the library
}

// another returns a tab of another person: it shares the browser's process, and no cookie.
func (b *browser) another() *browser {
	b.t.Helper()
	return newTab(b.t, b.ctx, chromedp.WithNewBrowserContext())
}

func newTab(t *testing.T, parent context.Context, options ...chromedp.ContextOption) *browser {
	t.Helper()
	b := &browser{t: t}
	var cancel context.CancelFunc
	b.ctx, cancel = chromedp.NewContext(parent, append(options, chromedp.WithListener(b.watch))...)
	t.Cleanup(cancel)
	if err := chromedp.Do(b.ctx); err != nil {
		t.Fatalf("start the browser: %v", err)
	}
	return b
}

// watch collects faults. It runs for each event of the browser.
func (b *browser) watch(event any) {
	fault := ""
	switch e := event.(type) {
	case *page.EventJavascriptDialogOpening:
		fault = "a dialog: " + e.Message
	case *runtime.EventExceptionThrown:
		fault = fmt.Sprint("an exception: ", e.ExceptionDetails.Text, " ", e.ExceptionDetails.URL, ":", e.ExceptionDetails.LineNumber)
	case *runtime.EventConsoleAPICalled:
		fault = fmt.Sprint("written to the console: ", e.Type)
	case *log.EventEntryAdded:
		if strings.HasSuffix(e.Entry.URL, "/favicon.ico") { // of an answer that is no page
			return
		}
		fault = fmt.Sprint("the browser's log: ", e.Entry.Level, " ", e.Entry.Text, " ", e.Entry.URL)
	default:
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.faults = append(b.faults, fault)
}

// wantFaults wants a fault with each of these texts, and no others since the last time that it was asked.
func (b *browser) wantFaults(texts ...string) {
	b.t.Helper()
	all := func() []string {
		b.mu.Lock()
		defer b.mu.Unlock()
		return b.faults
	}
	if len(texts) > 0 {
		symbiotest.Await(b.t, fmt.Sprintf("the browser has the faults %q", texts), func() bool { return len(all()) >= len(texts) })
	}
	for _, f := range all() {
		i := slices.IndexFunc(texts, func(text string) bool { return strings.Contains(f, text) })
		if i < 0 {
			b.t.Errorf("a fault in the browser: %s", f)
			continue
		}
		texts = slices.Delete(texts, i, i+1)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.faults = nil
}

// do runs actions. If one fails, the test ends with what the page shows.
func (b *browser) do(what string, actions ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	if err := chromedp.Do(b.ctx, actions...); err != nil {
		b.t.Fatalf("%s: %v\n%s", what, err, b.text())
	}
}

// open loads a page and waits for it.
func (b *browser) open(url string) {
	b.t.Helper()
	b.do("open "+url, chromedp.Navigate(url))
}

// text is the address of the page and what it shows.
func (b *browser) text() string {
	text, err := chromedp.Run(b.ctx, chromedp.Evaluate[string](`location.href + "\n" + document.body.innerText`))
	if err != nil {
		return err.Error()
	}
	return text
}

// holds reports whether an expression of JavaScript is true in the page. A page that is being left has no
// truth.
func (b *browser) holds(expression string) bool {
	ok, err := chromedp.Run(b.ctx, chromedp.Evaluate[bool](`Boolean(`+expression+`)`))
	return err == nil && ok
}

// until waits for an expression of JavaScript to become true. It asks from outside, because the pages forbid the
// evaluation of text.
func (b *browser) until(expression string) {
	b.t.Helper()
	waittest.Until(b.t, expression+" in the page", func() (any, bool) { return b.text(), b.holds(expression) })
}

// see waits for a text in what an element shows.
func (b *browser) see(element, text string) {
	b.t.Helper()
	b.until(fmt.Sprintf(`(document.querySelector(%s)?.innerText ?? "").includes(%s)`, symbiotest.ToJSON(element), symbiotest.ToJSON(text)))
}

// click clicks an element and fill types into one.
func (b *browser) click(element string) {
	b.t.Helper()
	b.do("click "+element, onPresent(chromedp.Click(chromedp.CSS(element))))
}

func (b *browser) fill(element, text string) {
	b.t.Helper()
	b.do("fill "+element, onPresent(chromedp.SendKeys(chromedp.CSS(element), text)))
}

// onPresent does an action on the element that is there now. A page that is renewed may replace an element when it was found and
// before anything was done to it.
func onPresent(do chromedp.Action[chromedp.Void]) chromedp.Action[chromedp.Void] {
	return func(ctx context.Context, t *chromedp.Target) (chromedp.Void, error) {
		for {
			done, err := do(ctx, t)
			replaced := func(why string) bool { return strings.Contains(err.Error(), why) }
			if err == nil || ctx.Err() != nil || !slices.ContainsFunc([]string{"Could not find node with given id", "Node is detached", "Could not compute content quads"}, replaced) {
				return done, err
			}
		}
	}
}

// look sets the color scheme that the person prefers, and the width of the window.
func (b *browser) look(scheme string, width int64) {
	b.t.Helper()
	b.do("look", chromedp.EmulateViewport(width, 900), func(ctx context.Context, t *chromedp.Target) (chromedp.Void, error) {
		_, err := cdp.Call(ctx, t, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{
			{Name: "prefers-color-scheme", Value: scheme}, {Name: "prefers-reduced-motion", Value: "reduce"},
		}})
		return chromedp.Void{}, err
	})
}

// shoot writes a picture of the page, at most 1,100 pixels high, if the test was asked for pictures.
func (b *browser) shoot(name string) {
	b.t.Helper()
	dir := os.Getenv("SYMBIO_SCREENSHOTS")
	if dir == "" {
		return
	}
	picture, err := chromedp.Run(b.ctx, func(ctx context.Context, t *chromedp.Target) ([]byte, error) {
		m, err := cdp.Call(ctx, t, page.GetLayoutMetrics, cdp.Empty{})
		if err != nil {
			return nil, err
		}
		whole := &page.Viewport{Width: float64(m.CSSLayoutViewport.ClientWidth), Height: min(m.CSSContentSize.Height, 1100), Scale: 1}
		p, err := cdp.Call(ctx, t, page.CaptureScreenshot, page.CaptureScreenshotParams{Clip: whole, CaptureBeyondViewport: new(true)})
		return p.Data, err
	})
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, name+".png"), picture, 0o600)
	}
	if err != nil {
		b.t.Errorf("picture %s: %v", name, err)
	}
}

// finding is a rule of axe that a page breaks.
type finding struct {
	ID, Impact, Help string
	Nodes            []struct {
		HTML           string
		FailureSummary string
	}
}

// axe checks the page by axe-core with options, in a world of its own, where the Content-Security-Policy of the page does not count.
func (b *browser) axe(script, options string) (found []finding) {
	b.t.Helper()
	all, err := chromedp.Run(b.ctx, func(ctx context.Context, t *chromedp.Target) (found []finding, err error) {
		tree, err := cdp.Call(ctx, t, page.GetFrameTree, cdp.Empty{})
		if err != nil {
			return nil, err
		}
		world, err := cdp.Call(ctx, t, page.CreateIsolatedWorld, page.CreateIsolatedWorldParams{FrameID: tree.FrameTree.Frame.ID, WorldName: "axe"})
		if err != nil {
			return nil, err
		}
		in := func(p *runtime.EvaluateParams) { p.ContextID = world.ExecutionContextID }
		if _, err := chromedp.Evaluate[chromedp.Void](script+";undefined", in)(ctx, t); err != nil {
			return nil, err
		}
		return chromedp.Evaluate[[]finding](`axe.run(document, `+options+`).then(r => r.violations)`, in, chromedp.EvalAwaitPromise)(ctx, t)
	})
	if err != nil {
		b.t.Fatalf("axe: %v", err)
	}
	for _, f := range all {
		if f.Impact == "serious" || f.Impact == "critical" {
			found = append(found, f)
		}
	}
	return found
}

// axeScript returns the source of axe-core. Without it the test is skipped.
func axeScript(t *testing.T) string {
	t.Helper()
	dir := os.Getenv(symbiotest.NPMDirectory)
	if dir == "" {
		t.Skipf("%s names no directory with axe-core in its node_modules", symbiotest.NPMDirectory)
	}
	script, err := os.ReadFile(filepath.Join(dir, "node_modules/axe-core/axe.min.js"))
	if err != nil {
		t.Fatal(err)
	}
	return string(script)
}
