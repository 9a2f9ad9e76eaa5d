#include "scheduler/status/status_page.h"

#include <fmt/core.h>

#include <utility>

#include "common/base/address.h"

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
 const e=s.evaluations,top=Math.max(.01,s.best_p_at_1),last=e.length?e.at(-1).epochs_trained:1;
 document.getElementById('curve').setAttribute('points',e.map(x=>600*x.epochs_trained/Math.max(1,last)+','+(195-185*x.p_at_1/top)).join(' '));
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

StatusPage::~StatusPage() = default;

Result<std::unique_ptr<StatusPage>> StatusPage::Start(const std::string& bind) {
  std::unique_ptr<StatusPage> page(new StatusPage());
  StatusPage* shared = page.get();  // it outlives its server
  Result<std::unique_ptr<HttpServer>> server = HttpServer::Start(
      bind, [shared](std::string_view path) { return shared->At(path); }, HttpServer::Limits());
  if (!server.ok()) {
    return BadInput(fmt::format("cluster.status_bind = {}: {}", bind, server.error().message));
  }
  const std::string host = ParseTcp(bind)->host;
  page->server_ = std::move(*server);
  page->url_ = fmt::format("http://{}:{}/", host == "*" ? "0.0.0.0" : host, page->server_->port());
  return page;
}

HttpServer::Page StatusPage::At(std::string_view path) {
  const std::lock_guard lock(mutex_);
  if (path == "/") return {"text/html; charset=utf-8", page_};
  if (path == "/api/status") return {"application/json", status_};
  if (path == "/metrics") return {"text/plain; version=0.0.4", metrics_};
  return {};
}

StatusPage::StatusPage()
    : page_(std::make_shared<std::string>(kPage)),
      status_(std::make_shared<std::string>("{}")),
      metrics_(std::make_shared<std::string>()) {}

void StatusPage::Publish(std::string status_json, std::string prometheus_text) {
  auto status = std::make_shared<const std::string>(std::move(status_json));
  auto metrics = std::make_shared<const std::string>(std::move(prometheus_text));
  const std::lock_guard lock(mutex_);
  status_ = std::move(status);
  metrics_ = std::move(metrics);
}

}  // namespace dslide
