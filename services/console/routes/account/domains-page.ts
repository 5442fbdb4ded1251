import { recordOf } from "../../domains/claim.ts";
import { badge, button, choice, form, input, instant, table } from "../../html/controls.ts";
import { copyButton } from "../../html/copy-button.ts";
import { html, type Markup } from "../../html/html.ts";
import type { AccountRequest } from "../../html/route.ts";
import { domainRoles } from "../../permissions.ts";
import { graceDays, type Domain } from "../../store/domains.ts";

export const domainsPath = ({ accountId }: Pick<AccountRequest, "accountId">): string =>
  `/accounts/${accountId}/members/domains`;

const roleChoices = domainRoles.map((role) => [role, role] as const);

/** The domains of an account, the records that it is to publish, and the form for another one. */
export function domainsPage(request: AccountRequest, domains: Domain[], issuer: string): Markup {
  const rows = domains.map((domain, index) => domainRow(request, domain, index));
  const waiting = domains.filter(({ verifiedAt }) => verifiedAt === null);
  return html`<p>
      Who signs in with ${issuer} for the first time, with a checked address in a domain of yours, becomes a member of
      this account. Addresses in subdomains do not count, and nobody who is here already is changed.
    </p>
    ${table("Domains of this account", ["Domain", "Role", "State", "Actions"], rows)}
    ${waiting.map((domain, index) => recordToPublish(request, domain, index))}
    <h2>Claim a domain</h2>
    ${form(
      request,
      { action: domainsPath(request), button: "Claim" },
      html`${input(request.form, { name: "domain", label: "Domain", maxLength: 253 })}
      ${choice(request.form, {
        name: "role",
        label: "Role of who joins by it",
        hint: "Everybody whom your mail server gives an address can take it. Owners and admins are invited.",
        value: "viewer",
        choices: roleChoices,
      })}`,
    )}`;
}

function stateOf({ verifiedAt, foundAt, isClaimedByOwner, isMissing }: Domain): Markup {
  if (verifiedAt === null || foundAt === null) return badge("not verified", "secondary");
  if (!isClaimedByOwner) return html`${badge("off", "danger")} Who verified it is no owner any more: verify it anew.`;
  if (!isMissing) return html`${badge("on", "success")} since ${instant(verifiedAt)}`;
  return html`${badge("record missing", "warning")} It ends ${graceDays} days after ${instant(foundAt)}.`;
}

function domainRow(request: AccountRequest, domain: Domain, index: number): Markup {
  const path = `${domainsPath(request)}/${domain.domain}`;
  const id = `role-${index}`;
  const options = roleChoices.map(
    ([value, words]) => html`<option value="${value}" ${value === domain.role && html` selected`}>${words}</option>`,
  );
  return html`<tr>
    <th scope="row">${domain.domain}</th>
    <td>
      <form class="inline" method="post" action="${path}/role">
        ${request.csrfField}
        <label class="hidden" for="${id}">Role by ${domain.domain}</label>
        <select id="${id}" name="new-role">
          ${options}
        </select>
        <button>Change role<span class="hidden"> by ${domain.domain}</span></button>
      </form>
    </td>
    <td>${stateOf(domain)}</td>
    <td>
      ${button(request, { action: `${path}/verify`, button: "Verify" }, domain.domain)}
      ${button(request, { action: `${path}/remove`, button: "Remove", isDanger: true }, domain.domain)}
    </td>
  </tr>`;
}

function recordToPublish(request: AccountRequest, domain: Domain, index: number): Markup {
  const { name, value } = recordOf(domain);
  const id = `record-${index}`;
  const verification = { action: `${domainsPath(request)}/${domain.domain}/verify`, button: "Verify now" };
  return html`<section class="card">
    <h2>Publish this record for ${domain.domain}</h2>
    <p>Type TXT, name <code>${name}</code>, value</p>
    <p><code id="${id}">${value}</code> ${copyButton(id, `the value for ${domain.domain}`)}</p>
    <p>Then verify it, and leave the record there: it is looked for each day.</p>
    ${button(request, verification, domain.domain)}
  </section>`;
}
