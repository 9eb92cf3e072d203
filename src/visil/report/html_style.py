"""How a report looks: one style sheet, light and dark, from a phone's width up."""

STYLE = """
:root{color-scheme:light dark;--paper:#f6f7f9;--sheet:#fff;--ink:#1b1f27;--faint:#5b6472;--line:#dfe3e8;
--track:#e6e9ee;--keep:#0a6b4f;--keep-sheet:#e3f4ee;--accent:#1f5f8b;
--s0:#e69f00;--s1:#cc79a7;--s2:#d55e00;--s3:#009e73}
@media (prefers-color-scheme:dark){:root{--paper:#12151b;--sheet:#1b2029;--ink:#e8ebf0;--faint:#a0a9b6;
--line:#313946;--track:#2b323d;--keep:#7fdcbb;--keep-sheet:#12352b;--accent:#8cc4e8}}
*{box-sizing:border-box}
body{margin:0;background:var(--paper);color:var(--ink);font:16px/1.5 system-ui,-apple-system,"Segoe UI",sans-serif}
header,main,footer{max-width:1120px;margin:0 auto;padding:0 20px}
header{padding-top:32px}footer{padding:8px 20px 40px;color:var(--faint);font-size:14px}
h1{font-size:28px;line-height:1.2;margin:0 0 4px}h2{font-size:20px;margin:0}h3{font-size:16px;margin:20px 0 8px}
p{margin:4px 0}a{color:var(--accent)}bdi{overflow-wrap:anywhere}.faint{color:var(--faint)}
.numbers{display:flex;flex-wrap:wrap;gap:8px 32px;margin:20px 0;padding:0}
.numbers div{display:flex;flex-direction:column-reverse}
.numbers dt{color:var(--faint);font-size:14px}.numbers dd{margin:0;font-size:22px;font-weight:600}
nav{margin-top:24px}nav h2{display:inline}nav details{border:0}
nav ol{margin:8px 0 0;padding-left:44px;columns:3 280px;column-gap:56px}nav li{break-inside:avoid}
nav .plain{list-style:none}.head{display:flex;flex-wrap:wrap;justify-content:space-between;gap:0 24px}
.ways{display:flex;gap:16px;font-size:14px}
section{background:var(--sheet);border:1px solid var(--line);border-radius:12px;padding:20px;margin:20px 0}
.cards{display:grid;grid-template-columns:repeat(auto-fill,minmax(440px,1fr));gap:12px;padding:0;list-style:none;
margin:16px 0 0}
.card{display:flex;gap:12px;padding:10px;border:1px solid var(--line);border-radius:8px;min-width:0}
.card.keep{border-color:var(--keep);background:var(--keep-sheet)}
.card>div:last-child{min-width:0;flex:1}
.shot{flex:none;width:128px;height:96px;border-radius:4px;background:var(--track);object-fit:contain}
.none{display:flex;align-items:center;justify-content:center;text-align:center;color:var(--faint);font-size:12px;
line-height:1.25;padding:4px;border:1px dashed var(--faint);background:none}
.note{font-size:13px;line-height:1.4}.name{font-weight:600;line-height:1.3}.path,.facts{font-size:13px;line-height:1.4;color:var(--faint)}
.number{display:inline-block;min-width:22px;padding:0 6px;margin-right:4px;border-radius:11px;background:var(--track);
color:var(--ink);font-size:13px;font-weight:600;line-height:22px;text-align:center}
.badge{display:inline-block;padding:1px 8px;border-radius:10px;font-size:13px;font-weight:600;margin:0 0 2px;
border:1px solid var(--line);color:var(--faint)}
.badge.keep{background:var(--keep);border-color:var(--keep);color:var(--sheet)}
details{border-top:1px solid var(--line);padding:4px 0}h3+details{border-top:0}.cards+details{margin-top:12px}
summary{cursor:pointer;padding:8px 0;overflow-wrap:anywhere}summary:focus-visible{outline:2px solid var(--accent)}
.sure{font-weight:600;white-space:nowrap}.says{display:block;padding-left:18px;color:var(--faint);font-size:14px}
.pair{display:grid;grid-template-columns:minmax(0,1fr) 240px;gap:12px 24px;padding:4px 0 16px}
.strip{display:grid;grid-template-columns:repeat(6,minmax(0,1fr));gap:8px 6px;margin:0 0 14px;padding:0;list-style:none}
.strip li{border-top:4px solid var(--line);padding-top:4px;font-size:12px;color:var(--faint);line-height:1.35}
.strip .shot{display:block;width:100%;height:auto;aspect-ratio:16/9}.strip .none{display:flex}
.strip.tall .shot{aspect-ratio:3/4}.strip .shot+.shot{margin-top:3px}.strip b{color:var(--ink)}
.strip time{display:block;text-align:center;font-variant-numeric:tabular-nums}
.t0{border-color:var(--s0)!important}.t1{border-color:var(--s1)!important}
.t2{border-color:var(--s2)!important}.t3{border-color:var(--s3)!important}
.line{display:flex;justify-content:space-between;gap:12px;font-size:13px;color:var(--faint)}
.line span:last-child{white-space:nowrap}
svg{display:block;width:100%}.timeline{height:62px;margin:2px 0}.track{fill:var(--track)}
.timeline .c0,.timeline .k0{fill:var(--s0)}.timeline .c1,.timeline .k1{fill:var(--s1)}
.timeline .c2,.timeline .k2{fill:var(--s2)}.timeline .c3,.timeline .k3{fill:var(--s3)}
.timeline polygon{opacity:.28}
.matrix{margin:0}.matrix svg{border-radius:4px}.matrix image{image-rendering:pixelated}
.matrix rect{fill:none;stroke-width:2.5;vector-effect:non-scaling-stroke}
.matrix .c0{stroke:var(--s0)}.matrix .c1{stroke:var(--s1)}.matrix .c2{stroke:var(--s2)}.matrix .c3{stroke:var(--s3)}
figcaption{font-size:13px;color:var(--faint);line-height:1.4;margin-top:6px}
.matrix .sure{font-weight:400}
.scale{display:inline-block;width:64px;height:9px;border-radius:2px;margin:0 4px;
background:linear-gradient(90deg,#0c0f24,#17305c,#1f5f8b,#3f97a8,#8ccbb5,#f4fbe8)}
.wide{overflow-x:auto}table{border-collapse:collapse;font-size:14px;width:100%}
th,td{text-align:left;padding:6px 12px 6px 0;border-bottom:1px solid var(--line);vertical-align:top}
td{min-width:150px}td.n,th.n{min-width:0;text-align:right;font-variant-numeric:tabular-nums;white-space:nowrap}
@media (max-width:760px){.pair{grid-template-columns:minmax(0,1fr)}.strip{grid-template-columns:repeat(3,minmax(0,1fr))}
.matrix{max-width:280px}header,main,footer{padding-left:12px;padding-right:12px}section{padding:14px}
.cards{grid-template-columns:minmax(0,1fr)}.card .shot{width:104px;height:78px}td,th{padding-right:8px}}
@media print{section{break-inside:avoid-page}body{background:#fff}}
"""
