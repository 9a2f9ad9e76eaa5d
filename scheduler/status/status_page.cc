#include "scheduler/status/status_page.h"

#include <fmt/core.h>
#include <httplib.h>

#include <charconv>
#include <mutex>
#include <thread>

namespace dslide {
namespace {

constexpr char kPage[] = R"html(<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>D-SLIDE</title>
<style>
body{font:15px/1.5 system-ui,sans-serif;margin:2em auto;max-width:75em;padding:0 1em;color:#222}
h1{font-size:1.3em} table{border-collapse:collapse;margin:1em 0} td,th{padding:.2em .9em .2em 0;text-align:right}
td:first-child,th:first-child{text-align:left} #decisions td{text-align:left;vertical-align:top} th{font-weight:600;border-bottom:1px solid #999}
#bar{background:#eee;height:.8em;border-radius:.4em} #bar div{background:#36c;height:100%;border-radius:.4em;width:0}
svg{width:100%;height:16em;border:1px solid #ddd} .note{color:#777}
</style></head><body>
<h1>D-SLIDE <span id="phase" class="note"></span></h1>
<div id="bar"><div></div></div><p id="line"></p>
<svg viewBox="0 0 600 200" preserveAspectRatio="none"><polyline id="curve" fill="none" stroke="#36c" stroke-width="2" vector-effect="non-scaling-stroke"/></svg>
<p class="note" id="curvenote">P@1 after each evaluation</p>
<table id="figures"></table><table id="servers"></table><table id="workers"></table><table id="decisions"></table>
<script>
const fixed=(x,digits,times=1)=>x===undefined?'':(times*x).toFixed(digits);
const text=(e,t)=>{document.getElementById(e).textContent=t};
function fill(id,head,rows){const t=document.getElementById(id);t.replaceChildren();
 for(const [i,r] of [head,...rows].entries()){const tr=t.insertRow();for(const c of r){const d=document.createElement(i?'td':'th');d.textContent=c;tr.append(d)}}}
async function show(){try{const s=await (await fetch('/api/status')).json();
 text('phase',s.phase);document.querySelector('#bar div').style.width=100*s.progress+'%';text('line',s.line);
 const e=s.evaluations,top=Math.max(.01,...e.map(x=>x.p_at_1));
 document.getElementById('curve').setAttribute('points',e.map((x,i)=>(e.length<2?300:i*600/(e.length-1))+','+(195-185*x.p_at_1/top)).join(' '));
 if(e.length)text('curvenote','P@1 after each evaluation; last '+(100*e.at(-1).p_at_1).toFixed(2)+', best '+(100*top).toFixed(2));
 fill('figures',['figure','value'],Object.entries(s.figures).map(([k,v])=>[k,typeof v=='number'?+v.toPrecision(5):v]));
 const servers=s.members.filter(m=>m.role=='server'),workers=s.members.filter(m=>m.role!='server');
 fill('servers',['server','state','slots','load','busy %','memory MB','CPU s','peak MB','silent s','bucket mean','bucket p99','largest','empty %'],
  servers.map(m=>[m.name,m.state,m.slots??'',fixed(m.load,2),fixed(m.busy,0,100),fixed(m.memory_used_mb,0)+(m.memory_limit_mb?' / '+fixed(m.memory_limit_mb,0):''),m.cpu_seconds.toFixed(1),m.peak_rss_mb.toFixed(0),m.silent_s.toFixed(1),fixed(m.bucket_mean,1),m.bucket_p99??'',m.bucket_largest??'',fixed(m.bucket_empty_share,1,100)]));
 fill('workers',['worker','state','samples/s','samples','in flight','CPU s','peak MB','silent s'],
  workers.map(m=>[m.name,m.straggler?'straggler':m.state,fixed(m.samples_per_second,0),m.samples,m.batches_in_flight,m.cpu_seconds.toFixed(1),m.peak_rss_mb.toFixed(0),m.silent_s.toFixed(1)]));
 fill('decisions',['last decisions, seconds after the start',''],s.decisions.slice(-10).reverse().map(d=>[d.at_s.toFixed(0),d.text]));
}catch(x){text('phase','the scheduler does not answer')}}
show();setInterval(show,1000);
</script></body></html>
)html";

}  // namespace

struct StatusPage::Impl {
  httplib::Server server;
  std::mutex mutex;  // guards the two below
  std::string status = "{}";
  std::string metrics;
  std::thread thread;
};

StatusPage::StatusPage(std::unique_ptr<Impl> impl, std::string url)
    : impl_(std::move(impl)), url_(std::move(url)) {}

StatusPage::~StatusPage() {
  impl_->server.stop();
  impl_->thread.join();
}

Result<std::unique_ptr<StatusPage>> StatusPage::Start(const std::string& bind) {
  constexpr std::string_view kScheme = "tcp://";
  const size_t colon = bind.rfind(':');
  if (!bind.starts_with(kScheme) || colon < kScheme.size()) {
    return BadInput(fmt::format("cluster.status_bind = {}: must be tcp://HOST:PORT", bind));
  }
  std::string host = bind.substr(kScheme.size(), colon - kScheme.size());
  if (host == "*") host = "0.0.0.0";
  const std::string port_text = bind.substr(colon + 1);
  int port = 0;
  std::from_chars(port_text.data(), port_text.data() + port_text.size(), port);

  auto impl = std::make_unique<Impl>();
  Impl* shared = impl.get();
  shared->server.Get("/", [](const httplib::Request&, httplib::Response& response) {
    response.set_content(kPage, "text/html; charset=utf-8");
  });
  shared->server.Get("/api/status", [shared](const httplib::Request&, httplib::Response& response) {
    const std::lock_guard lock(shared->mutex);
    response.set_content(shared->status, "application/json");
  });
  shared->server.Get("/metrics", [shared](const httplib::Request&, httplib::Response& response) {
    const std::lock_guard lock(shared->mutex);
    response.set_content(shared->metrics, "text/plain; version=0.0.4");
  });
  if (port_text == "*") {
    port = shared->server.bind_to_any_port(host);
  } else if (!shared->server.bind_to_port(host, port)) {
    port = -1;
  }
  if (port <= 0) {
    return BadInput(
        fmt::format("cluster.status_bind = {}: cannot listen there; is the port in use?", bind));
  }
  shared->thread = std::thread([shared] { shared->server.listen_after_bind(); });
  while (!shared->server.is_running()) std::this_thread::yield();
  return std::unique_ptr<StatusPage>(
      new StatusPage(std::move(impl), fmt::format("http://{}:{}/", host, port)));
}

void StatusPage::Publish(std::string status_json, std::string prometheus_text) {
  const std::lock_guard lock(impl_->mutex);
  impl_->status = std::move(status_json);
  impl_->metrics = std::move(prometheus_text);
}

}  // namespace dslide
